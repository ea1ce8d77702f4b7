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
var<workgroup> sums_of: array<f32, SUBS * RESULTS>; // of each subgroup
//#else
var<workgroup> lane_sums: array<f32, RESULTS * LANES>;
//#endif

//#include "lib/step.wgsl"
//#include "lib/matmul_params.wgsl"
//#include "lib/weight_$FORMAT.wgsl"
//#include "lib/matvec_results.wgsl"

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
  //#if SUBGROUPS
  //#unroll
  for (var i = 0u; i < RESULTS; i++) {
    sum[i] = subgroupAdd(sum[i]);
  }
  if (lane == 0u) {
    //#unroll
    for (var i = 0u; i < RESULTS; i++) {
      sums_of[sub * RESULTS + i] = sum[i];
    }
  }
  gather_squares(token0, local);
  //#else
  //#unroll
  for (var i = 0u; i < RESULTS; i++) {
    lane_sums[i * LANES + lane] = sum[i];
  }
  //#endif
  workgroupBarrier();
  write_results(row0, token0, sub, lane, sub == 0u);
}

// A sum over all columns; only the first subgroup has results.
fn result_of(sub: u32, i: u32) -> f32 {
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
