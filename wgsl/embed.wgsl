// y[t, c] = W[id[t], c] * scale: one thread for PART columns. Rows in other parts of a split table are skipped.
// With params.norm, also writes the input of the next norm: scaled = y * norm_weight, and the sum of squares of PART columns.

struct Params {
  rows: u32,       // of this part of the table
  first_row: u32,
  blocks: u32,     // columns / 32
  scale: f32,
  norm: u32,
}

@group(0) @binding(0) var<storage, read> quants: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> scales: array<u32>;
@group(0) @binding(2) var<storage, read> token: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> sampled: array<u32>;
@group(0) @binding(4) var<storage, read_write> y: array<vec4<f32>>;
@group(0) @binding(5) var<uniform> params: Params;
@group(0) @binding(6) var<uniform> step: Step;
@group(0) @binding(7) var<storage, read_write> squares: array<f32>;
@group(0) @binding(8) var<storage, read> norm_weight: array<vec4<f32>>;
@group(0) @binding(9) var<storage, read_write> scaled: array<vec4<f32>>;

//#include "lib/step.wgsl"
//#include "lib/weight_$FORMAT.wgsl"

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) global: vec3<u32>) {
  let t = global.y;
  let parts = params.blocks * 32u / PART;
  if (global.x >= parts || t >= step.tokens) {
    return;
  }
  var id = token[t].x;
  if (id == FEEDBACK) {
    id = sampled[token[t].z];
  }
  if (id < params.first_row || id - params.first_row >= params.rows) {
    return;
  }
  var squared = 0.0;
  for (var i = 0u; i < PART / 4u; i++) {
    let quad = global.x * (PART / 4u) + i;
    let index = (id - params.first_row) * params.blocks + quad / 8u;
    let value = load_quad(index, quad % 8u) * params.scale;
    let at = t * (params.blocks * 8u) + quad;
    y[at] = value;
    if (params.norm != 0u) {
      scaled[at] = value * norm_weight[quad];
      squared += dot(value, value);
    }
  }
  if (params.norm != 0u) {
    squares[t * parts + global.x] = squared;
  }
}
