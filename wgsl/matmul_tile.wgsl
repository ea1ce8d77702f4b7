// y[t, n] = sum over k of W[n, k] x[t, k]  (+ bias[n]) (+ y[t, n]): tiles of 64 rows and 64 tokens through
// workgroup memory, a block of 32 columns at a time; a thread keeps 4 x 4 results. For GPUs and long prompts.
// With F16 the tiles are f16, which halves the traffic of workgroup memory; sums are f32 always.
//#if F16
enable f16;
alias Elem = vec4<f16>;
//#else
alias Elem = vec4<f32>;
//#endif

@group(0) @binding(0) var<storage, read> quants: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> scales: array<u32>;
@group(0) @binding(2) var<storage, read> bias: array<f32>;
@group(0) @binding(3) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;
@group(0) @binding(5) var<uniform> params: Params;
@group(0) @binding(6) var<uniform> step: Step;

const TILE = 64u;
const GROUPS = TILE / 4u;
const THREADS = GROUPS * GROUPS;

//#include "lib/step.wgsl"
//#include "lib/matmul_params.wgsl"
//#include "lib/weight_$FORMAT.wgsl"

// [column, row / 4] and [column, token / 4]
var<workgroup> weight_tile: array<Elem, 32u * GROUPS>;
var<workgroup> token_tile: array<Elem, 32u * GROUPS>;

@compute @workgroup_size(THREADS)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
) {
  let row0 = group.x * TILE;
  let token0 = group.y * TILE;
  let tokens = matmul_tokens();
  let mine_row = local % GROUPS;
  let mine_token = local / GROUPS;

  var sum = array<vec4<f32>, 4>(); // [token] of four rows
  for (var b = 0u; b < params.blocks; b++) {
    workgroupBarrier();
    // 64 x 8 quads of four columns on each side; neighbouring threads take neighbouring quads.
    for (var i = local; i < TILE * 8u; i += THREADS) {
      let at = i / 8u;
      let quad = i % 8u;
      let weights = Elem(load_quad(min(row0 + at, params.rows - 1u) * params.blocks + b, quad));
      let values = Elem(x[(min(token0 + at, tokens - 1u) * params.blocks + b) * 8u + quad]);
      for (var e = 0u; e < 4u; e++) {
        weight_tile[(quad * 4u + e) * GROUPS + at / 4u][at % 4u] = weights[e];
        token_tile[(quad * 4u + e) * GROUPS + at / 4u][at % 4u] = values[e];
      }
    }
    workgroupBarrier();
    for (var k = 0u; k < min(32u, params.many); k++) {
      let four_rows = vec4<f32>(weight_tile[k * GROUPS + mine_row]);
      let four_tokens = vec4<f32>(token_tile[k * GROUPS + mine_token]);
      for (var t = 0u; t < 4u; t++) {
        sum[t] = fma(four_rows, vec4(four_tokens[t]), sum[t]);
      }
    }
  }
  var results = sum;
  for (var i = 0u; i < min(16u, params.many); i++) {
    let row = row0 + mine_row * 4u + i % 4u;
    let token = token0 + mine_token * 4u + i / 4u;
    if (row < params.rows && token < tokens) {
      write_result(token, row, results[i / 4u][i % 4u]);
    }
  }
}
