// y[t, n] = sum over k of W[n, k] x[t, k]  (+ bias[n]) (+ y[t, n]): one row of W per thread, COLS tokens at once.
// With subgroups, the lanes load the activations together and exchange them by shuffles, because on a software adapter
// a load with the same address in all lanes costs as much as a gather.
// The sum is in the order of k for every COLS, so the result of a token does not depend on the other tokens.
// Each partial sum of squares covers LANES rows.
//#if SUBGROUPS
enable subgroups;
//#endif

@group(0) @binding(3) var<storage, read> x: array<f32>;

const_assert 32u % LANES == 0u && LANES >= 4u;
const_assert WG % LANES == 0u;

//#include "lib/step.wgsl"
//#include "lib/matmul_params.wgsl"
//#include "lib/weight_$FORMAT.wgsl"

@compute @workgroup_size(WG)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
  //#if SUBGROUPS
  @builtin(subgroup_invocation_id) lane: u32,
  //#endif
) {
  let pair = pairing();
  let row0 = group.x * (WG * (ROWS >> pair)) + local;
  let token0 = group.y * COLS;
  let tokens = matmul_tokens();
  let width = params.blocks * 32u;

  var sum = array<f32, COLS * ROWS>();
  for (var b = 0u; b < params.blocks; b++) {
    var part = array<f32, COLS * ROWS>();
    //#if SUBGROUPS
    var blocks = array<Block, ROWS>();
    for (var r = 0u; r < ROWS; r++) {
      blocks[r] = load_block(row_of(row0, r, WG) * params.blocks + b);
    }
    for (var s = 0u; s < 32u / LANES; s++) {
      var mine = array<f32, COLS>();
      for (var c = 0u; c < COLS; c++) {
        mine[c] = x[(token0 + c) * width + b * 32u + s * LANES + lane];
      }
      for (var j = 0u; j < LANES / 4u; j++) {
        var quads = array<vec4<f32>, ROWS>();
        for (var r = 0u; r < ROWS; r++) {
          quads[r] = block_quad(blocks[r], s * (LANES / 4u) + j);
        }
        for (var e = 0u; e < 4u; e++) {
          for (var c = 0u; c < COLS; c++) {
            let value = subgroupShuffle(mine[c], j * 4u + e);
            for (var r = 0u; r < ROWS; r++) {
              part[c * ROWS + r] = fma(quads[r][e], value, part[c * ROWS + r]);
            }
          }
        }
      }
    }
    for (var r = 0u; r < ROWS; r++) {
      let scale = block_scale(row_of(row0, r, WG) * params.blocks + b);
      for (var c = 0u; c < COLS; c++) {
        sum[c * ROWS + r] = fma(part[c * ROWS + r], scale, sum[c * ROWS + r]);
      }
    }
    //#else
    for (var j = 0u; j < min(8u, params.loop_limit); j++) {
      for (var r = 0u; r < ROWS; r++) {
        let quad = load_quad(row_of(row0, r, WG) * params.blocks + b, j);
        for (var c = 0u; c < COLS; c++) {
          let at = (token0 + c) * width + b * 32u + j * 4u;
          let four = vec4(x[at], x[at + 1u], x[at + 2u], x[at + 3u]);
          part[c * ROWS + r] += dot(quad, four);
        }
      }
    }
    for (var i = 0u; i < COLS * ROWS; i++) {
      sum[i] += part[i];
    }
    //#endif
  }
  //#if SUBGROUPS
  if (has(NORM_IN)) {
    for (var c = 0u; c < COLS; c++) {
      var squared = 0.0;
      for (var p = lane; p < params.parts; p += LANES) {
        squared += squares[(token0 + c) * params.parts + p];
      }
      let inverse = inverse_rms(subgroupAdd(squared));
      for (var r = 0u; r < ROWS; r++) {
        sum[c * ROWS + r] *= inverse;
      }
    }
  }
  //#endif
  // A copy, and a loop bound that the compiler does not know: unrolled stores would dominate the compile time.
  var results = sum;
  let across = ROWS >> pair;
  for (var i = 0u; i < min(COLS * across, params.loop_limit); i++) {
    let token = token0 + i / across;
    let row = row0 + (i % across) * WG;
    let inside = row < out_rows() && token < tokens;
    var value = results[i << pair];
    if (pair != 0u) {
      value = activate(value) * results[2u * i + 1u];
    }
    if (inside) {
      value = write_result(token, row, value);
    }
    //#if SUBGROUPS
    if (has(NORM_OUT)) {
      let squared = subgroupAdd(select(0.0, value * value, inside));
      if (lane == 0u && inside) {
        squares[token * params.parts + row / LANES] = squared;
      }
    }
    //#endif
  }
}
