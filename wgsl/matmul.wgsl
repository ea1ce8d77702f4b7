// y[t, n] = sum over k of W[n, k] x[t, k]  (+ bias[n]) (+ y[t, n]): a row of W a thread, COLS tokens at once.
// With subgroups, the lanes fetch the activations together and pass them around by shuffles, because a load
// whose address is the same in all lanes costs a software adapter as much as a gather.
// The sum runs over k in order whatever COLS is, so a token's result does not depend on its neighbours.
//#if SUBGROUPS
enable subgroups;
//#endif

@group(0) @binding(0) var<storage, read> quants: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> scales: array<u32>;
@group(0) @binding(2) var<storage, read> bias: array<f32>;
@group(0) @binding(3) var<storage, read> x: array<f32>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;
@group(0) @binding(5) var<uniform> params: Params;
@group(0) @binding(6) var<uniform> step: Step;

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
  let row0 = group.x * (WG * ROWS) + local;
  let token0 = group.y * COLS;
  let last = params.rows - 1u;
  let tokens = matmul_tokens();
  let width = params.blocks * 32u;

  var sum = array<f32, COLS * ROWS>();
  for (var b = 0u; b < params.blocks; b++) {
    var part = array<f32, COLS * ROWS>();
    //#if SUBGROUPS
    var blocks = array<Block, ROWS>();
    for (var r = 0u; r < ROWS; r++) {
      blocks[r] = load_block(min(row0 + r * WG, last) * params.blocks + b);
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
      let scale = block_scale(min(row0 + r * WG, last) * params.blocks + b);
      for (var c = 0u; c < COLS; c++) {
        sum[c * ROWS + r] = fma(part[c * ROWS + r], scale, sum[c * ROWS + r]);
      }
    }
    //#else
    for (var j = 0u; j < min(8u, params.many); j++) {
      for (var r = 0u; r < ROWS; r++) {
        let quad = load_quad(min(row0 + r * WG, last) * params.blocks + b, j);
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
  // A copy, and a bound the compiler does not know: written out, these stores take it longer than all the rest.
  var results = sum;
  for (var i = 0u; i < min(COLS * ROWS, params.many); i++) {
    let row = row0 + (i % ROWS) * WG;
    let token = token0 + i / ROWS;
    if (row <= last && token < tokens) {
      write_result(token, row, results[i]);
    }
  }
}
