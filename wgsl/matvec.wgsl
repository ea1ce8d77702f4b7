// y[t, n] = sum over k of W[n, k] x[t, k]  (+ bias[n]) (+ y[t, n]): ROWS rows of W per workgroup and COLS tokens at once, for GPUs
// and few tokens. SUBS subgroups share the blocks of the rows, and SHARE lanes share a block, so that adjacent lanes read
// adjacent weights and adjacent columns of x; the sums are combined at the end.
// Each partial sum of squares covers ROWS rows.
// The order of the sum depends only on LANES, SUBS and SHARE, so the result of a token does not depend on the other tokens.
//#if SUBGROUPS
enable subgroups;
//#endif

@group(0) @binding(3) var<storage, read> x: array<vec4<f32>>;

const THREADS = LANES * SUBS;
const RESULTS = COLS * ROWS;
const QUADS = 8u / SHARE; // of a lane in a block
const_assert LANES % SHARE == 0u;

//#if SUBGROUPS
// Of each subgroup: sums, and of squares of the tokens.
var<workgroup> sums_of: array<f32, SUBS * RESULTS>;
var<workgroup> squares_of: array<f32, SUBS * COLS>;
//#else
var<workgroup> lane_sums: array<f32, RESULTS * LANES>;
//#endif

//#include "lib/step.wgsl"
//#include "lib/matmul_params.wgsl"
//#include "lib/weight_$FORMAT.wgsl"

@compute @workgroup_size(THREADS)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
) {
  let lane = local % LANES;
  let sub = local / LANES;
  let pair = pairing();
  let across = ROWS >> pair;
  // Groups of rows continue in z if x is full; the last groups can be beyond the last row.
  let row0 = (group.z * groups.x + group.x) * across;
  let token0 = group.y * COLS;
  let first_quad = local % SHARE;

  var row_start = array<u32, ROWS>();
  //#unroll
  for (var r = 0u; r < ROWS; r++) {
    row_start[r] = row_of(row0, r, 1u) * params.blocks;
  }
  var sum = array<f32, RESULTS>();
  for (var b = local / SHARE; b < params.blocks; b += THREADS / SHARE) {
    var columns = array<vec4<f32>, COLS * QUADS>();
    var quad_total = array<f32, COLS * QUADS>();
    var block_total = array<f32, COLS>();
    //#unroll
    for (var c = 0u; c < COLS; c++) {
      //#unroll
      for (var q = 0u; q < QUADS; q++) {
        columns[c * QUADS + q] = x[((token0 + c) * params.blocks + b) * 8u + q * SHARE + first_quad];
        if (HAS_OFFSET) {
          quad_total[c * QUADS + q] = dot(columns[c * QUADS + q], vec4(1.0));
          block_total[c] += quad_total[c * QUADS + q];
        }
      }
    }
    //#unroll
    for (var r = 0u; r < ROWS; r++) {
      let index = row_start[r] + b;
      let range = quad_range(index, first_quad);
      var part = array<f32, COLS>();
      //#unroll
      for (var q = 0u; q < QUADS; q++) {
        let codes = quad_codes(index, q * SHARE + first_quad);
        let own_range = quad_range(index, q * SHARE + first_quad);
        //#unroll
        for (var c = 0u; c < COLS; c++) {
          let product = dot(codes, columns[c * QUADS + q]);
          if (ONE_RANGE) {
            part[c] += product;
          } else {
            part[c] += fma(product, own_range.x, quad_total[c * QUADS + q] * own_range.y);
          }
        }
      }
      //#unroll
      for (var c = 0u; c < COLS; c++) {
        if (ONE_RANGE && HAS_OFFSET) {
          part[c] = fma(part[c], range.x, block_total[c] * range.y);
        } else if (ONE_RANGE && HAS_SCALE) {
          part[c] *= range.x;
        }
        sum[c * ROWS + r] += part[c];
      }
    }
  }
  // After this, any thread of the first subgroup can write any result.
  //#if SUBGROUPS
  //#unroll
  for (var i = 0u; i < RESULTS; i++) {
    sum[i] = subgroupAdd(sum[i]);
  }
  var squared = array<f32, COLS>();
  if (has(NORM_IN)) {
    //#unroll
    for (var c = 0u; c < COLS; c++) {
      for (var p = local; p < params.parts; p += THREADS) {
        squared[c] += squares[(token0 + c) * params.parts + p];
      }
      squared[c] = subgroupAdd(squared[c]);
    }
  }
  if (lane == 0u) {
    //#unroll
    for (var i = 0u; i < RESULTS; i++) {
      sums_of[sub * RESULTS + i] = sum[i];
    }
    //#unroll
    for (var c = 0u; c < COLS; c++) {
      squares_of[sub * COLS + c] = squared[c];
    }
  }
  workgroupBarrier();
  //#else
  //#unroll
  for (var i = 0u; i < RESULTS; i++) {
    lane_sums[i * LANES + lane] = sum[i];
  }
  workgroupBarrier();
  //#endif
  let tokens = decode_end();
  for (var base = 0u; base < min(COLS * across, params.loop_limit); base += LANES) {
    let i = base + lane;
    let token = token0 + i / across;
    let row = row0 + i % across;
    let inside = sub == 0u && i < COLS * across && row < out_rows() && token < tokens;
    var value = 0.0;
    if (inside) {
      let inverse = inverse_of(i / across);
      value = result_of(i << pair) * inverse;
      if (pair != 0u) {
        value = activate(value) * result_of(2u * i + 1u) * inverse;
      }
      value = write_result(token, row, value);
    }
    //#if SUBGROUPS
    if (has(NORM_OUT)) {
      // ROWS adjacent lanes have the rows of a token.
      var square = value * value;
      for (var other = 1u; other < ROWS; other *= 2u) {
        square += subgroupShuffleXor(square, other);
      }
      if (inside && i % ROWS == 0u) {
        squares[token * params.parts + row / ROWS] = square;
      }
    }
    //#endif
  }
}

// A sum over all columns.
fn result_of(i: u32) -> f32 {
  var total = 0.0;
  //#if SUBGROUPS
  for (var s = 0u; s < min(SUBS, params.loop_limit); s++) {
    total += sums_of[s * RESULTS + i];
  }
  //#else
  for (var n = 0u; n < min(LANES, params.loop_limit); n++) {
    total += lane_sums[i * LANES + n];
  }
  //#endif
  return total;
}

// 1 / RMS of the c-th token, or 1.
fn inverse_of(c: u32) -> f32 {
  //#if SUBGROUPS
  if (has(NORM_IN)) {
    var squared = 0.0;
    for (var s = 0u; s < min(SUBS, params.loop_limit); s++) {
      squared += squares_of[s * COLS + c];
    }
    return inverse_rms(squared);
  }
  //#endif
  return 1.0;
}
