// y[t, n] = sum over k of W[n, k] x[t, k], like matmul_tile, on the adapter's matrix units: tiles of TILE_ROWS rows and TILE_TOKENS
// tokens in f16, products of 16 x 16 x 16 summed in f32. Eight subgroups of 32, each with 32 tokens and a share of the rows. The
// next STEP blocks are read while the present ones are multiplied.
enable f16;
enable subgroups;
enable chromium_experimental_subgroup_matrix;

@group(0) @binding(3) var<storage, read> x: array<vec4<f32>>;

const THREADS = 256u;
const STRIDE = STEP * 32u + 8u;                // padded, so that rows lie in different banks
const QUADS = STEP * 8u;                       // of a row
const TOKEN_GROUPS = TILE_TOKENS / 32u;        // subgroups along the tokens
const ROW_GROUPS = 8u / TOKEN_GROUPS;
const GROUP_ROWS = TILE_ROWS / ROW_GROUPS;     // rows of a subgroup
const ROW_FRAGMENTS = GROUP_ROWS / 16u;
const WEIGHT_QUADS = TILE_ROWS * QUADS / THREADS; // that a thread reads
const TOKEN_QUADS = TILE_TOKENS * QUADS / THREADS;
const FOURS = TILE_ROWS / 64u;                 // groups of four results of a thread, for every 16 tokens
const_assert TOKEN_GROUPS * ROW_GROUPS == 8u;
const_assert ROW_FRAGMENTS * 16u * ROW_GROUPS == TILE_ROWS;

//#include "lib/step.wgsl"
//#include "lib/matmul_params.wgsl"
//#include "lib/weight_$FORMAT.wgsl"

// [row or token, column]
var<workgroup> weight_tile: array<f16, TILE_ROWS * STRIDE>;
var<workgroup> token_tile: array<f16, TILE_TOKENS * STRIDE>;
// [token, row], sixteen tokens at a time
var<workgroup> out_tile: array<f32, 16u * TILE_ROWS>;
// NORM_IN: 1 / RMS of each token, before rounding: values before the norms can exceed f16 in some models.
var<workgroup> inverse_of: array<f32, TILE_TOKENS>;

@compute @workgroup_size(THREADS)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
  @builtin(subgroup_id) subgroup: u32,
) {
  let row0 = group.x * (TILE_ROWS >> pairing());
  let token0 = prompt_begin() + group.y * TILE_TOKENS;
  let tokens = matmul_tokens();
  let group_token = (subgroup % TOKEN_GROUPS) * 32u;
  let group_row = (subgroup / TOKEN_GROUPS) * GROUP_ROWS;

  scale_tokens(token0, tokens, local);
  var sums = array<array<subgroup_matrix_result<f32, 16, 16>, ROW_FRAGMENTS>, 2>();
  var weights = array<vec4<f16>, WEIGHT_QUADS>();
  var values = array<vec4<f16>, TOKEN_QUADS>();
  for (var b = 0u; b < params.blocks + STEP; b += STEP) {
    // Stores the quads that were read in the previous round.
    if (b != 0u) {
      workgroupBarrier();
      //#unroll
      for (var i = 0u; i < WEIGHT_QUADS; i++) {
        let at = (local + i * THREADS) / QUADS * STRIDE + (local + i * THREADS) % QUADS * 4u;
        //#unroll
        for (var e = 0u; e < 4u; e++) {
          weight_tile[at + e] = weights[i][e];
        }
      }
      //#unroll
      for (var i = 0u; i < TOKEN_QUADS; i++) {
        let at = (local + i * THREADS) / QUADS * STRIDE + (local + i * THREADS) % QUADS * 4u;
        //#unroll
        for (var e = 0u; e < 4u; e++) {
          token_tile[at + e] = values[i][e];
        }
      }
      workgroupBarrier();
    }
    if (b < params.blocks) {
      //#unroll
      for (var i = 0u; i < WEIGHT_QUADS; i++) {
        let quad = (local + i * THREADS) % QUADS;
        let block = min(b + quad / 8u, params.blocks - 1u);
        let index = row_of(row0, (local + i * THREADS) / QUADS, 1u) * params.blocks + block;
        weights[i] = vec4<f16>(weight_quad(index, quad % 8u) * f32(b + quad / 8u < params.blocks));
      }
      //#unroll
      for (var i = 0u; i < TOKEN_QUADS; i++) {
        let quad = (local + i * THREADS) % QUADS;
        let block = min(b + quad / 8u, params.blocks - 1u);
        let token = (local + i * THREADS) / QUADS;
        let source = (min(token0 + token, tokens - 1u) * params.blocks + block) * 8u + quad % 8u;
        values[i] = vec4<f16>(x[source] * inverse_of[token]);
      }
    }
    if (b != 0u) {
      //#unroll
      for (var half = 0u; half < STEP * 2u; half++) {
        const k = half * 16u;
        let first = subgroupMatrixLoad<subgroup_matrix_left<f16, 16, 16>, row_major>(
          &token_tile, group_token * STRIDE + k, STRIDE);
        let second = subgroupMatrixLoad<subgroup_matrix_left<f16, 16, 16>, row_major>(
          &token_tile, (group_token + 16u) * STRIDE + k, STRIDE);
        //#unroll
        for (var r = 0u; r < ROW_FRAGMENTS; r++) {
          let right = subgroupMatrixLoad<subgroup_matrix_right<f16, 16, 16>, col_major>(
            &weight_tile, (group_row + r * 16u) * STRIDE + k, STRIDE);
          sums[0][r] = subgroupMatrixMultiplyAccumulate(first, right, sums[0][r]);
          sums[1][r] = subgroupMatrixMultiplyAccumulate(second, right, sums[1][r]);
        }
      }
    }
  }
  //#unroll
  for (var strip = 0u; strip < TILE_TOKENS / 16u; strip++) {
    workgroupBarrier();
    //#unroll
    for (var t = 0u; t < 2u; t++) {
      if (group_token / 16u + t == strip) {
        //#unroll
        for (var r = 0u; r < ROW_FRAGMENTS; r++) {
          subgroupMatrixStore<row_major>(&out_tile, group_row + r * 16u, sums[t][r], TILE_ROWS);
        }
      }
    }
    workgroupBarrier();
    //#unroll
    for (var f = 0u; f < FOURS; f++) {
      let row = (local % 16u) * 4u + f * 64u;
      let source = local / 16u * TILE_ROWS + row;
      let four = vec4(out_tile[source], out_tile[source + 1u], out_tile[source + 2u], out_tile[source + 3u]);
      finish_four(four, token0 + strip * 16u + local / 16u, row0, row);
    }
  }
}

fn weight_quad(index: u32, j: u32) -> vec4<f32> {
  let codes = quad_codes(index, j);
  if (HAS_OFFSET) {
    let range = quad_range(index, j);
    return fma(codes, vec4(range.x), vec4(range.y));
  }
  if (HAS_SCALE) {
    return codes * quad_range(index, j).x;
  }
  return codes;
}

// Several threads sum the parts of each token; after this, inverse_of is filled.
fn scale_tokens(token0: u32, tokens: u32, local: u32) {
  const SHARE = THREADS / TILE_TOKENS;
  var squared = 0.0;
  if (has(NORM_IN)) {
    for (var p = local % SHARE; p < params.parts; p += SHARE) {
      squared += squares[min(token0 + local / SHARE, tokens - 1u) * params.parts + p];
    }
  }
  out_tile[local] = squared;
  workgroupBarrier();
  if (local < TILE_TOKENS) {
    var total = 0.0;
    for (var n = 0u; n < SHARE; n++) {
      total += out_tile[local * SHARE + n];
    }
    inverse_of[local] = select(1.0, inverse_rms(total), has(NORM_IN));
  }
  workgroupBarrier();
}

// Four consecutive rows of the tile, from `tile_row`, for a token. Each partial sum of squares covers 4 rows.
fn finish_four(sum: vec4<f32>, token: u32, row0: u32, tile_row: u32) {
  let pair = pairing();
  let row = row0 + (tile_row >> pair);
  if (token >= matmul_tokens() || row >= out_rows()) {
    return;
  }
  var results = sum;
  var squared = 0.0;
  for (var r = 0u; r < min(4u >> pair, out_rows() - row); r++) {
    var value = results[r << pair];
    if (pair != 0u) {
      value = activate(value) * results[2u * r + 1u];
    }
    value = write_result(token, row + r, value);
    squared = fma(value, value, squared);
  }
  if (has(NORM_OUT)) {
    squares[token * params.parts + row / 4u] = squared;
  }
}
