// Bindings of the expert products, the assignment of work, and the processing of their sums. A tile contains
// (token, expert) pairs of one expert. DIRECT: every pair is a tile, in the order of routes.
struct Params {
  rows: u32,         // of an expert
  blocks: u32,       // columns / 32
  first_expert: u32, // first expert in this part of the weights,
  experts: u32,      // and number of experts in it
  used: u32,         // experts of each token
  flags: u32,
  order_at: u32,     // word of routes: the pairs by expert,
  tiles_at: u32,     // and their tiles
  computed_at: u32,  // of this kind of product
  loop_limit: u32,         // loop limit: larger than the results of a thread
  all_experts: u32,
  prompt_tiles_at: u32, // tiles of the rows of prompts
}

const BIAS = 1u;
const PAIRED = 2u; // x has one row for each pair instead of each token
const GATED = 4u;  // results are multiplied by the activation of the pair's gate
const OAI = 8u;    // with GATED: OpenAI's variant, with clamping, a steeper sigmoid and up + 1

@group(0) @binding(0) var<storage, read> quants: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> scales: array<u32>;
@group(0) @binding(2) var<storage, read> vectors: array<f32>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;
@group(0) @binding(5) var<uniform> params: Params;
@group(0) @binding(6) var<storage, read> routes: array<u32>;
@group(0) @binding(7) var<storage, read> gate: array<f32>;
@group(0) @binding(8) var<storage, read_write> computed: array<atomic<u32>>;

struct Tile { expert: u32, first: u32, count: u32 }

// `tiles_at`: where the kernel's tiles begin.
fn tile_at(tiles_at: u32, index: u32) -> Tile {
  //#if DIRECT
  return Tile(routes[2u * index], index, 1u);
  //#else
  let at = tiles_at + 4u * index;
  return Tile(routes[at], routes[at + 1u], routes[at + 2u]);
  //#endif
}

// Whether the tile has pairs, and its weights are in this part.
fn is_here(tile: Tile) -> bool {
  return tile.count > 0u && tile.expert >= params.first_expert && tile.expert - params.first_expert < params.experts;
}

// One workgroup of each tile counts the computed pairs of each expert.
fn count_work(tile: Tile, rows: u32, local: u32) {
  if (rows == 0u && local == 0u) {
    atomicAdd(&computed[params.computed_at + tile.expert], tile.count);
  }
}

// The c-th pair of a tile; the last pair for c beyond its end.
fn pair_of(tile: Tile, c: u32) -> u32 {
  //#if DIRECT
  return tile.first;
  //#else
  return routes[params.order_at + tile.first + min(c, tile.count - 1u)];
  //#endif
}

// The row of x of a pair.
fn input_of(pair: u32) -> u32 {
  return select(pair / params.used, pair, (params.flags & PAIRED) != 0u);
}

// Row of this part of the weights for a row of the tile's expert; clamped to the expert.
fn row_of(tile: Tile, row: u32) -> u32 {
  return (tile.expert - params.first_expert) * params.rows + min(row, params.rows - 1u);
}

// The smaller of x and a positive limit; NaN is kept, because it shows that a weight is damaged. Compares bits, which have
// the order of positive numbers: compilers replace f32 comparisons by a minimum that drops NaN.
fn at_most(x: f32, limit: f32) -> f32 {
  let bits = bitcast<u32>(x);
  let limit_bits = bitcast<u32>(limit);
  return bitcast<f32>(select(bits, limit_bits, bits > limit_bits && bits <= 0x7f800000u));
}

fn write_result(tile: Tile, pair: u32, row: u32, result: f32) {
  let at = pair * params.rows + row;
  var value = result;
  if ((params.flags & BIAS) != 0u) {
    value += vectors[tile.expert * params.rows + row];
  }
  if ((params.flags & GATED) != 0u) {
    var open = gate[at];
    var slope = 1.0;
    if ((params.flags & OAI) != 0u) {
      open = at_most(open, 7.0);
      slope = 1.702;
      value = 1.0 - at_most(-at_most(value, 7.0), 7.0);
    }
    value *= open / (1.0 + exp(-slope * open));
  }
  y[at] = value;
}
