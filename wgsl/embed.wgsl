// y[t, c] = W[id[t], c] * scale: four columns a thread. Rows of other parts of a split table are left alone.

struct Params {
  rows: u32,       // of this part of the table
  first_row: u32,
  blocks: u32,     // columns / 32
  scale: f32,
}

@group(0) @binding(0) var<storage, read> quants: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> scales: array<u32>;
@group(0) @binding(2) var<storage, read> token: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> sampled: array<u32>;
@group(0) @binding(4) var<storage, read_write> y: array<vec4<f32>>;
@group(0) @binding(5) var<uniform> params: Params;
@group(0) @binding(6) var<uniform> step: Step;

//#include "lib/step.wgsl"
//#include "lib/weight_$FORMAT.wgsl"

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) global: vec3<u32>) {
  let t = global.y;
  let quads = params.blocks * 8u;
  if (global.x >= quads || t >= step.tokens) {
    return;
  }
  var id = token[t].x;
  if (id == FEEDBACK) {
    id = sampled[token[t].z];
  }
  if (id < params.first_row || id - params.first_row >= params.rows) {
    return;
  }
  let index = (id - params.first_row) * params.blocks + global.x / 8u;
  y[t * quads + global.x] = load_quad(index, global.x % 8u) * params.scale;
}
