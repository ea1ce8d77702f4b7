// y[t, n] = sum over k of W[n, k] x[t, k], like matmul_tile, with x quantized to 8 bits with a scale for each token and
// block of 32 columns, and four products per instruction. Exact except for that rounding.

@group(0) @binding(3) var<storage, read> x: array<vec4<f32>>;

const TILE = 64u;
const GROUPS = TILE / 4u;
const THREADS = GROUPS * GROUPS;

//#include "lib/step.wgsl"
//#include "lib/matmul_params.wgsl"
//#include "lib/weight_$FORMAT.wgsl"
//#include "lib/tile_results.wgsl"

// [row or token, word of four columns], with a stride of 9 words so that adjacent rows use different banks
const STRIDE = 9u;
var<workgroup> weight_tile: array<u32, TILE * STRIDE>;
var<workgroup> token_tile: array<u32, TILE * STRIDE>;
var<workgroup> weight_scales: array<f32, TILE>;
var<workgroup> token_scales: array<f32, TILE>;
// Largest magnitude of a quarter of a block, NaN if one is NaN; later, sums of squares.
var<workgroup> of_thread: array<f32, THREADS>;

fn keep_square(thread: u32, square: f32) {
  of_thread[thread] = square;
}

fn kept_square(thread: u32) -> f32 {
  return of_thread[thread];
}

@compute @workgroup_size(THREADS)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
) {
  let pair = pairing();
  let row0 = group.x * (TILE >> pair);
  let token0 = prompt_begin() + group.y * TILE;
  let tokens = matmul_tokens();
  let mine_row = local % GROUPS;
  let mine_token = local / GROUPS;
  // To load tiles: four threads for each row and each token, two words each.
  let at = local / 4u;
  let quarter = local % 4u;

  var sum = array<vec4<f32>, 4>(); // [token] of four rows
  for (var b = 0u; b < params.blocks; b++) {
    workgroupBarrier();
    let index = row_of(row0, at, 1u) * params.blocks + b;
    weight_tile[at * STRIDE + quarter * 2u] = load_bytes(index, quarter * 2u);
    weight_tile[at * STRIDE + quarter * 2u + 1u] = load_bytes(index, quarter * 2u + 1u);
    let source = (min(token0 + at, tokens - 1u) * params.blocks + b) * 8u + quarter * 2u;
    let low = x[source];
    let high = x[source + 1u];
    // Magnitudes as bits, which have the same order, with NaN last: the maximum of f32 may drop NaN.
    let greatest = max(bitcast<vec4<u32>>(abs(low)), bitcast<vec4<u32>>(abs(high)));
    of_thread[local] = bitcast<f32>(max(max(greatest.x, greatest.y), max(greatest.z, greatest.w)));
    workgroupBarrier();
    let four = at * 4u;
    let quarters = bitcast<vec4<u32>>(
      vec4(of_thread[four], of_thread[four + 1u], of_thread[four + 2u], of_thread[four + 3u]));
    let top = bitcast<f32>(max(max(quarters.x, quarters.y), max(quarters.z, quarters.w)));
    let per_unit = select(0.0, 127.0 / top, top > 0.0);
    token_tile[at * STRIDE + quarter * 2u] = pack4xI8(vec4<i32>(round(low * per_unit)));
    token_tile[at * STRIDE + quarter * 2u + 1u] = pack4xI8(vec4<i32>(round(high * per_unit)));
    if (quarter == 0u) {
      weight_scales[at] = block_scale(index);
      token_scales[at] = top / 127.0;
    }
    workgroupBarrier();
    var part = array<vec4<i32>, 4>();
    for (var w = 0u; w < min(8u, params.loop_limit); w++) {
      let rows = vec4<u32>(
        weight_tile[mine_row * 4u * STRIDE + w],
        weight_tile[(mine_row * 4u + 1u) * STRIDE + w],
        weight_tile[(mine_row * 4u + 2u) * STRIDE + w],
        weight_tile[(mine_row * 4u + 3u) * STRIDE + w],
      );
      for (var t = 0u; t < 4u; t++) {
        let word = token_tile[(mine_token * 4u + t) * STRIDE + w];
        part[t] += vec4<i32>(
          dot4I8Packed(rows.x, word),
          dot4I8Packed(rows.y, word),
          dot4I8Packed(rows.z, word),
          dot4I8Packed(rows.w, word),
        );
      }
    }
    let scales_of_rows = vec4<f32>(
      weight_scales[mine_row * 4u],
      weight_scales[mine_row * 4u + 1u],
      weight_scales[mine_row * 4u + 2u],
      weight_scales[mine_row * 4u + 3u],
    );
    for (var t = 0u; t < 4u; t++) {
      sum[t] = fma(vec4<f32>(part[t]) * token_scales[mine_token * 4u + t], scales_of_rows, sum[t]);
    }
  }
  finish_tile(sum, row0, token0, local);
}
