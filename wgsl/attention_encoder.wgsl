// Bidirectional attention of a tile of tokens over its whole sequence, all of whose tokens are in the step
// (lib/attention.wgsl). The upper half of tile.y is the length of the sequence.
// With WINDOW, a token attends to params.window positions in each direction, including its own.
//#if SUBGROUPS
enable subgroups;
//#endif

struct Params {
  heads: u32,
  kv_heads: u32,
  max_pages: u32,     // of a sequence: row length of page_table
  out_stride: u32,    // of out, elements per token
  scale: f32,
  loop_limit: u32,    // loop limit: larger than QROWS
  window: u32,        // WINDOW
}

@group(0) @binding(0) var<storage, read> qkv: array<f32>;
@group(0) @binding(1) var<storage, read> tiles: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> page_table: array<u32>;
@group(0) @binding(3) var<storage, read> k_cache: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> v_cache: array<u32>;
@group(0) @binding(5) var<storage, read_write> out: array<vec2<f32>>; // [tokens, out_stride]
@group(0) @binding(6) var<uniform> params: Params;

//#include "lib/attention.wgsl"
//#include "lib/cache_words.wgsl"

fn sees(position: u32, place: u32, end: u32) -> bool {
  //#if WINDOW
  return position < end && position + params.window > place && position < place + params.window;
  //#else
  return position < end;
  //#endif
}

@compute @workgroup_size(LANES)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  var tile = tiles[group.x];
  let length = tile.y >> 16u;
  tile.y &= 0xffffu;
  let head0 = group.y * GROUP;
  //#if WINDOW
  let first = oldest_position(tile) / LANES * LANES;
  let end = min(length, tile.w + tile.y + params.window - 1u);
  //#else
  let first = 0u;
  let end = length;
  //#endif
  let sums = attend(load_queries(tile, head0, lane), tile, key_head(group.y), head0, Range(first, end, NONE), lane);
  store_context(sums, tile, head0, lane);
}
