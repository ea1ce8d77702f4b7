// y[pair, n] = sum over k of W[expert of pair, n, k] x[row of pair, k], modified by the flags: ROWS rows of an expert per
// workgroup, one block per lane, COLS pairs at once. For GPUs and few tokens; see matvec.wgsl.
// The order of the sum depends only on LANES, so the result of a pair does not depend on the other pairs.
//#if SUBGROUPS
enable subgroups;
//#endif

@group(0) @binding(3) var<storage, read> x: array<vec4<f32>>;

//#if SUBGROUPS
//#else
var<workgroup> lane_sums: array<f32, COLS * ROWS * LANES>;
//#endif

//#include "lib/expert_params.wgsl"
//#include "lib/weight_$FORMAT.wgsl"

@compute @workgroup_size(LANES)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let tile = tile_at(params.tiles_at, group.y);
  if (!is_here(tile)) {
    return;
  }
  count_work(tile, group.x, lane);
  let row0 = group.x * ROWS;
  var from_x = array<u32, COLS>();
  for (var c = 0u; c < COLS; c++) {
    from_x[c] = input_of(pair_of(tile, c)) * params.blocks;
  }

  var sum = array<f32, COLS * ROWS>();
  for (var b = lane; b < params.blocks; b += LANES) {
    var blocks = array<Block, ROWS>();
    for (var r = 0u; r < ROWS; r++) {
      blocks[r] = load_block(row_of(tile, row0 + r) * params.blocks + b);
    }
    var part = array<f32, COLS * ROWS>();
    for (var j = 0u; j < 8u; j++) {
      for (var c = 0u; c < COLS; c++) {
        let four = x[(from_x[c] + b) * 8u + j];
        for (var r = 0u; r < ROWS; r++) {
          part[c * ROWS + r] += dot(block_quad(blocks[r], j), four);
        }
      }
    }
    for (var r = 0u; r < ROWS; r++) {
      let scale = block_scale(row_of(tile, row0 + r) * params.blocks + b);
      for (var c = 0u; c < COLS; c++) {
        sum[c * ROWS + r] = fma(part[c * ROWS + r], scale, sum[c * ROWS + r]);
      }
    }
  }
  // After this, any lane can write any sum.
  var results = array<f32, COLS * ROWS>();
  //#if SUBGROUPS
  for (var i = 0u; i < COLS * ROWS; i++) {
    results[i] = subgroupAdd(sum[i]);
  }
  //#else
  for (var i = 0u; i < COLS * ROWS; i++) {
    lane_sums[i * LANES + lane] = sum[i];
  }
  workgroupBarrier();
  for (var i = 0u; i < min(COLS * ROWS, params.loop_limit); i++) {
    for (var n = 0u; n < min(LANES, params.loop_limit); n++) {
      results[i] += lane_sums[i * LANES + n];
    }
  }
  //#endif
  for (var base = 0u; base < min(COLS * ROWS, params.loop_limit); base += LANES) {
    let i = base + lane;
    let row = row0 + i % ROWS;
    if (i < COLS * ROWS && row < params.rows && i / ROWS < tile.count) {
      write_result(tile, pair_of(tile, i / ROWS), row, results[i]);
    }
  }
}
