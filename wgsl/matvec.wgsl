// y[t, n] = sum over k of W[n, k] x[t, k]  (+ bias[n]) (+ y[t, n]): ROWS rows of W per workgroup, one block per lane,
// COLS tokens at once. For GPUs: adjacent lanes read adjacent blocks, and the sums are combined at the end.
// Each partial sum of squares covers ROWS rows.
// The order of the sum depends only on LANES, so the result of a token does not depend on the other tokens.
//#if SUBGROUPS
enable subgroups;
//#endif

@group(0) @binding(3) var<storage, read> x: array<vec4<f32>>;

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
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let pair = pairing();
  let across = ROWS >> pair;
  // Groups of rows continue in z if x is full; the last groups can be beyond the last row.
  let row0 = (group.z * groups.x + group.x) * across;
  let token0 = group.y * COLS;

  var sum = array<f32, COLS * ROWS>();
  for (var b = lane; b < params.blocks; b += LANES) {
    var blocks = array<Block, ROWS>();
    for (var r = 0u; r < ROWS; r++) {
      blocks[r] = load_block(row_of(row0, r, 1u) * params.blocks + b);
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
      let scale = block_scale(row_of(row0, r, 1u) * params.blocks + b);
      for (var c = 0u; c < COLS; c++) {
        sum[c * ROWS + r] = fma(part[c * ROWS + r], scale, sum[c * ROWS + r]);
      }
    }
  }
  // After this, any lane can write any sum.
  //#if SUBGROUPS
  var results = array<f32, COLS * ROWS>();
  for (var c = 0u; c < COLS; c++) {
    var inverse = 1.0;
    if (has(NORM_IN)) {
      var squared = 0.0;
      for (var p = lane; p < params.parts; p += LANES) {
        squared += squares[(token0 + c) * params.parts + p];
      }
      inverse = inverse_rms(subgroupAdd(squared));
    }
    for (var r = 0u; r < ROWS; r++) {
      results[c * ROWS + r] = subgroupAdd(sum[c * ROWS + r]) * inverse;
    }
  }
  //#else
  for (var i = 0u; i < COLS * ROWS; i++) {
    lane_sums[i * LANES + lane] = sum[i];
  }
  workgroupBarrier();
  var results = array<f32, COLS * ROWS>();
  for (var i = 0u; i < min(COLS * ROWS, params.loop_limit); i++) {
    for (var n = 0u; n < min(LANES, params.loop_limit); n++) {
      results[i] += lane_sums[i * LANES + n];
    }
  }
  //#endif
  let tokens = decode_end();
  for (var base = 0u; base < min(COLS * across, params.loop_limit); base += LANES) {
    let i = base + lane;
    let token = token0 + i / across;
    let row = row0 + i % across;
    let inside = i < COLS * across && row < out_rows() && token < tokens;
    var value = 0.0;
    if (inside) {
      value = results[i << pair];
      if (pair != 0u) {
        value = activate(value) * results[2u * i + 1u];
      }
      value = write_result(token, row, value);
    }
    //#if SUBGROUPS
    if (has(NORM_OUT)) {
      // ROWS adjacent lanes have the rows of a token.
      var squared = value * value;
      for (var other = 1u; other < ROWS; other *= 2u) {
        squared += subgroupShuffleXor(squared, other);
      }
      if (inside && i % ROWS == 0u) {
        squares[token * params.parts + row / ROWS] = squared;
      }
    }
    //#endif
  }
}
