// y[pair, n] = sum over k of W[expert of pair, n, k] x[row of pair, k], modified by the flags: one row of W per thread,
// COLS pairs of one expert at once. For software adapters; see matmul.wgsl, whose sums have the same order.
// The sum is in the order of k for every COLS, so the result of a pair does not depend on the other pairs.
//#if SUBGROUPS
enable subgroups;
//#endif

@group(0) @binding(3) var<storage, read> x: array<f32>;

const_assert 32u % LANES == 0u && LANES >= 4u;
const_assert WG % LANES == 0u;

//#include "lib/expert_params.wgsl"
//#include "lib/weight_$FORMAT.wgsl"

@compute @workgroup_size(WG)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
  //#if SUBGROUPS
  @builtin(subgroup_invocation_id) lane: u32,
  //#endif
) {
  let tile = tile_at(params.tiles_at, group.y);
  if (!is_here(tile)) {
    return;
  }
  count_work(tile, group.x, local);
  let row0 = group.x * (WG * ROWS) + local;
  let width = params.blocks * 32u;
  var from_x = array<u32, COLS>();
  for (var c = 0u; c < COLS; c++) {
    from_x[c] = input_of(pair_of(tile, c)) * width;
  }

  var sum = array<f32, COLS * ROWS>();
  for (var b = 0u; b < params.blocks; b++) {
    var part = array<f32, COLS * ROWS>();
    //#if SUBGROUPS
    var blocks = array<Block, ROWS>();
    for (var r = 0u; r < ROWS; r++) {
      blocks[r] = load_block(row_of(tile, row0 + r * WG) * params.blocks + b);
    }
    for (var s = 0u; s < 32u / LANES; s++) {
      var mine = array<f32, COLS>();
      for (var c = 0u; c < COLS; c++) {
        mine[c] = x[from_x[c] + b * 32u + s * LANES + lane];
      }
      for (var j = 0u; j < LANES / 4u; j++) {
        var quads = array<vec4<f32>, ROWS>();
        for (var r = 0u; r < ROWS; r++) {
          quads[r] = block_quad(blocks[r], s * (LANES / 4u) + j);
        }
        for (var e = 0u; e < 4u; e++) {
          for (var c = 0u; c < COLS; c++) {
            let value = subgroupShuffle(mine[c], j * 4u + e);
            for (var r = 0u; r < ROWS; r++) {
              part[c * ROWS + r] = fma(quads[r][e], value, part[c * ROWS + r]);
            }
          }
        }
      }
    }
    for (var r = 0u; r < ROWS; r++) {
      let scale = block_scale(row_of(tile, row0 + r * WG) * params.blocks + b);
      for (var c = 0u; c < COLS; c++) {
        sum[c * ROWS + r] = fma(part[c * ROWS + r], scale, sum[c * ROWS + r]);
      }
    }
    //#else
    for (var j = 0u; j < min(8u, params.loop_limit); j++) {
      for (var r = 0u; r < ROWS; r++) {
        let quad = load_quad(row_of(tile, row0 + r * WG) * params.blocks + b, j);
        for (var c = 0u; c < COLS; c++) {
          let at = from_x[c] + b * 32u + j * 4u;
          let four = vec4(x[at], x[at + 1u], x[at + 2u], x[at + 3u]);
          part[c * ROWS + r] += dot(quad, four);
        }
      }
    }
    for (var i = 0u; i < COLS * ROWS; i++) {
      sum[i] += part[i];
    }
    //#endif
  }
  // A copy, and a loop bound that the compiler does not know: unrolled stores would dominate the compile time.
  var results = sum;
  for (var i = 0u; i < min(COLS * ROWS, params.loop_limit); i++) {
    let row = row0 + (i % ROWS) * WG;
    if (row < params.rows && i / ROWS < tile.count) {
      write_result(tile, pair_of(tile, i / ROWS), row, results[i]);
    }
  }
}
