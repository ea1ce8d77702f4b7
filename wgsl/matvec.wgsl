// y[t, n] = sum over k of W[n, k] x[t, k]  (+ bias[n]) (+ y[t, n]): ROWS rows of W a workgroup, a block a lane,
// COLS tokens at once. For GPUs: neighbouring lanes read neighbouring blocks, and the sums meet at the end.
// The order of the sum depends on LANES alone, so a token's result does not depend on its neighbours.
//#if SUBGROUPS
enable subgroups;
//#endif

@group(0) @binding(0) var<storage, read> quants: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> scales: array<u32>;
@group(0) @binding(2) var<storage, read> bias: array<f32>;
@group(0) @binding(3) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;
@group(0) @binding(5) var<uniform> params: Params;
@group(0) @binding(6) var<uniform> step: Step;

//#if SUBGROUPS
//#else
var<workgroup> lane_sums: array<f32, COLS * ROWS * LANES>;
//#endif

//#include "lib/step.wgsl"
//#include "lib/matmul_params.wgsl"
//#include "lib/weight_$FORMAT.wgsl"

@compute @workgroup_size(LANES)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let row0 = group.x * ROWS;
  let token0 = group.y * COLS;
  let last = params.rows - 1u;

  var sum = array<f32, COLS * ROWS>();
  for (var b = lane; b < params.blocks; b += LANES) {
    var blocks = array<Block, ROWS>();
    for (var r = 0u; r < ROWS; r++) {
      blocks[r] = load_block(min(row0 + r, last) * params.blocks + b);
    }
    var part = array<f32, COLS * ROWS>();
    for (var j = 0u; j < 8u; j++) {
      for (var c = 0u; c < COLS; c++) {
        let four = x[((token0 + c) * params.blocks + b) * 8u + j];
        for (var r = 0u; r < ROWS; r++) {
          part[c * ROWS + r] += dot(block_quad(blocks[r], j), four);
        }
      }
    }
    for (var r = 0u; r < ROWS; r++) {
      let scale = block_scale(min(row0 + r, last) * params.blocks + b);
      for (var c = 0u; c < COLS; c++) {
        sum[c * ROWS + r] = fma(part[c * ROWS + r], scale, sum[c * ROWS + r]);
      }
    }
  }
  // Afterwards any lane can write any sum.
  //#if SUBGROUPS
  var results = array<f32, COLS * ROWS>();
  for (var i = 0u; i < COLS * ROWS; i++) {
    results[i] = subgroupAdd(sum[i]);
  }
  //#else
  for (var i = 0u; i < COLS * ROWS; i++) {
    lane_sums[i * LANES + lane] = sum[i];
  }
  workgroupBarrier();
  //#endif
  let tokens = matmul_tokens();
  for (var i = lane; i < min(COLS * ROWS, params.many); i += LANES) {
    let row = row0 + i % ROWS;
    let token = token0 + i / ROWS;
    if (row <= last && token < tokens) {
      //#if SUBGROUPS
      write_result(token, row, results[i]);
      //#else
      var result = 0.0;
      for (var n = 0u; n < min(LANES, params.many); n++) {
        result += lane_sums[i * LANES + n];
      }
      write_result(token, row, result);
      //#endif
    }
  }
}
