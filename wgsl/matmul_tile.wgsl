// y[t, n] = sum over k of W[n, k] x[t, k]  (+ bias[n]) (+ y[t, n]): tiles of TILE rows and tokens in
// workgroup memory, a block of 32 columns at a time; each thread computes 4 x 4 results. For GPUs and long prompts.
// With F16 the tiles are f16, which halves the traffic of workgroup memory; sums are always f32.
//#if F16
enable f16;
alias Elem = vec4<f16>;
const SPREAD = 2u;
//#else
alias Elem = vec4<f32>;
const SPREAD = 1u;
//#endif

@group(0) @binding(3) var<storage, read> x: array<vec4<f32>>;

const GROUPS = TILE / 4u;
const THREADS = GROUPS * GROUPS;

//#include "lib/step.wgsl"
//#include "lib/matmul_params.wgsl"
//#include "lib/weight_$FORMAT.wgsl"
//#include "lib/tile_results.wgsl"

// [column, row / 4] and [column, token / 4], in the order of `spread`.
var<workgroup> weight_tile: array<Elem, 32u * GROUPS>;
var<workgroup> token_tile: array<Elem, 32u * GROUPS>;

// Place of a group of four in the columns of a quad. Adjacent threads store adjacent quads, which would lie in the same bank.
fn spread(four: u32, quad: u32) -> u32 {
  return four ^ (quad * SPREAD % GROUPS);
}

//#if F16
var<workgroup> squares_of_thread: array<f32, THREADS>;

fn keep_square(thread: u32, square: f32) {
  squares_of_thread[thread] = square;
}

fn kept_square(thread: u32) -> f32 {
  return squares_of_thread[thread];
}
//#else
// The tiles use all of the guaranteed workgroup memory, so the squares reuse it after the products.
fn keep_square(thread: u32, square: f32) {
  token_tile[thread].x = square;
}

fn kept_square(thread: u32) -> f32 {
  return token_tile[thread].x;
}
//#endif

//#if F16
// Factor of a token of the tile before rounding.
fn scale_of(token: u32) -> f32 {
  if (has(NORM_IN)) {
    return kept_square(token);
  }
  return 1.0;
}
//#endif

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

  //#if F16
  if (has(NORM_IN)) {
    gather_squares(token0, local);
    var inverse = 1.0;
    if (local < TILE) {
      inverse = inverse_of(local);
    }
    workgroupBarrier();
    keep_square(local, inverse);
  }
  //#endif
  var sum = array<vec4<f32>, 4>(); // [token] of four rows
  for (var b = 0u; b < params.blocks; b++) {
    workgroupBarrier();
    // Some threads load rows, others tokens: four of them, four columns each. Adjacent threads load adjacent quads.
    for (var task = local; task < 4u * TILE; task += THREADS) {
      let four = (task % (2u * TILE)) / 8u;
      let quad = task % 8u;
      var fetched = array<Elem, 4>();
      if (task < 2u * TILE) {
        for (var r = 0u; r < 4u; r++) {
          fetched[r] = Elem(load_quad(row_of(row0, four * 4u + r, 1u) * params.blocks + b, quad));
        }
      } else {
        for (var r = 0u; r < 4u; r++) {
          let values = x[(min(token0 + four * 4u + r, tokens - 1u) * params.blocks + b) * 8u + quad];
          //#if F16
          fetched[r] = Elem(values * scale_of(four * 4u + r));
          //#else
          fetched[r] = values;
          //#endif
        }
      }
      // Store whole vectors: a store of one component can affect the others.
      for (var e = 0u; e < 4u; e++) {
        let column = Elem(fetched[0][e], fetched[1][e], fetched[2][e], fetched[3][e]);
        let to = (quad * 4u + e) * GROUPS + spread(four, quad);
        if (task < 2u * TILE) {
          weight_tile[to] = column;
        } else {
          token_tile[to] = column;
        }
      }
    }
    workgroupBarrier();
    for (var quad = 0u; quad < min(8u, params.loop_limit); quad++) {
      let row_at = quad * 4u * GROUPS + spread(mine_row, quad);
      let token_at = quad * 4u * GROUPS + spread(mine_token, quad);
      //#unroll
      for (var e = 0u; e < 4u; e++) {
        let four_rows = vec4<f32>(weight_tile[row_at + e * GROUPS]);
        let four_tokens = vec4<f32>(token_tile[token_at + e * GROUPS]);
        //#unroll
        for (var t = 0u; t < 4u; t++) {
          sum[t] = fma(four_rows, vec4(four_tokens[t]), sum[t]);
        }
      }
    }
  }
  finish_tile(sum, row0, token0, local);
}
