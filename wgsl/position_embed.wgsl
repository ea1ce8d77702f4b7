// y[t, c] += P[position of t, c] + type[segment of t, c]: one thread for four columns. Either term can be absent. Rows
// in other parts of a split table are skipped.

struct Params {
  rows: u32,       // of this part of P
  first_row: u32,
  blocks: u32,     // columns / 32
  token_types: u32, // rows of token_type: 0 adds none; with 2, tokens of the second segment get the second row
}

@group(0) @binding(0) var<storage, read_write> y: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> token_type: array<vec4<f32>>;
@group(0) @binding(2) var<uniform> params: Params;
@group(0) @binding(3) var<uniform> step: Step;
@group(0) @binding(4) var<storage, read> token: array<vec4<u32>>;
//#if POSITIONS
@group(0) @binding(5) var<storage, read> quants: array<vec4<u32>>;
@group(0) @binding(6) var<storage, read> scales: array<u32>;
//#include "lib/weight_$FORMAT.wgsl"
//#endif

//#include "lib/step.wgsl"

const SECOND_SEGMENT = 2u;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) global: vec3<u32>) {
  let t = global.y;
  let quad = global.x;
  if (quad >= params.blocks * 8u || t >= step.tokens) {
    return;
  }
  var sum = vec4<f32>();
  if (params.token_types != 0u) {
    let is_second = params.token_types > 1u && (token[t].w & SECOND_SEGMENT) != 0u;
    sum = token_type[select(0u, params.blocks * 8u, is_second) + quad];
  }
  //#if POSITIONS
  let position = token[t].y;
  if (position >= params.first_row && position - params.first_row < params.rows) {
    sum += load_quad((position - params.first_row) * params.blocks + quad / 8u, quad % 8u);
  }
  //#endif
  y[t * params.blocks * 8u + quad] += sum;
}
