// y[t, n] = sum over k of W[n, k] x[t, k], like matmul_tile, on the adapter's matrix units: tiles of 64 rows and 64
// tokens in f16, products of 16 x 16 x 16 summed in f32. Eight subgroups of 32, each with 32 tokens by 16 rows.
enable f16;
enable subgroups;
enable chromium_experimental_subgroup_matrix;

@group(0) @binding(3) var<storage, read> x: array<vec4<f32>>;

const TILE = 64u;
const GROUPS = TILE / 4u;
const THREADS = GROUPS * GROUPS;

//#include "lib/step.wgsl"
//#include "lib/matmul_params.wgsl"
//#include "lib/weight_$FORMAT.wgsl"
//#include "lib/tile_results.wgsl"

// [row or token, column]
var<workgroup> weight_tile: array<f16, TILE * 32u>;
var<workgroup> token_tile: array<f16, TILE * 32u>;
// [token, row], sixteen tokens at a time
var<workgroup> out_tile: array<f32, 16u * TILE>;

fn keep_square(thread: u32, square: f32) {
  out_tile[thread] = square;
}

fn kept_square(thread: u32) -> f32 {
  return out_tile[thread];
}

@compute @workgroup_size(THREADS)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
  @builtin(subgroup_id) subgroup: u32,
) {
  let row0 = group.x * (TILE >> pairing());
  let token0 = prompt_begin() + group.y * TILE;
  let tokens = matmul_tokens();
  let at = local / 4u;
  let quarter = local % 4u;
  let first_token = (subgroup / 4u) * 32u;
  let first_row = (subgroup % 4u) * 16u;

  var scale = 1.0;
  if (has(NORM_IN)) {
    gather_squares(token0, local);
    scale = inverse_of(at);
  }
  var upper: subgroup_matrix_result<f32, 16, 16>;
  var lower: subgroup_matrix_result<f32, 16, 16>;
  for (var b = 0u; b < params.blocks; b++) {
    workgroupBarrier();
    let index = row_of(row0, at, 1u) * params.blocks + b;
    let source = (min(token0 + at, tokens - 1u) * params.blocks + b) * 8u;
    for (var half = 0u; half < 2u; half++) {
      let quad = quarter * 2u + half;
      let weights = vec4<f16>(load_quad(index, quad));
      let values = vec4<f16>(x[source + quad] * scale);
      for (var e = 0u; e < 4u; e++) {
        weight_tile[at * 32u + quad * 4u + e] = weights[e];
        token_tile[at * 32u + quad * 4u + e] = values[e];
      }
    }
    workgroupBarrier();
    for (var k = 0u; k < 32u; k += 16u) {
      let right = subgroupMatrixLoad<subgroup_matrix_right<f16, 16, 16>, col_major>(
        &weight_tile, first_row * 32u + k, 32u);
      let left = subgroupMatrixLoad<subgroup_matrix_left<f16, 16, 16>, row_major>(
        &token_tile, first_token * 32u + k, 32u);
      upper = subgroupMatrixMultiplyAccumulate(left, right, upper);
      let next = subgroupMatrixLoad<subgroup_matrix_left<f16, 16, 16>, row_major>(
        &token_tile, (first_token + 16u) * 32u + k, 32u);
      lower = subgroupMatrixMultiplyAccumulate(next, right, lower);
    }
  }
  var sum = array<vec4<f32>, 4>(); // [token] of four rows
  for (var sixteen = 0u; sixteen < 4u; sixteen++) {
    workgroupBarrier();
    if (first_token / 16u == sixteen) {
      subgroupMatrixStore<row_major>(&out_tile, first_row, upper, TILE);
    }
    if (first_token / 16u + 1u == sixteen) {
      subgroupMatrixStore<row_major>(&out_tile, first_row, lower, TILE);
    }
    workgroupBarrier();
    if (local / (4u * GROUPS) == sixteen) {
      for (var t = 0u; t < 4u; t++) {
        let source = (local / GROUPS % 4u * 4u + t) * TILE + local % GROUPS * 4u;
        sum[t] = vec4(out_tile[source], out_tile[source + 1u], out_tile[source + 2u], out_tile[source + 3u]);
      }
    }
  }
  finish_tile(sum, row0, token0, local);
}
