// One invocation for each element.

override WG: u32 = 64;

struct Params {
  columns: u32,
}

struct Step {
  tokens: u32,
}

@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<uniform> params: Params;
@group(0) @binding(3) var<uniform> step: Step;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) global: vec3<u32>) {
  let column = global.x;
  let token = global.y;
  if (column >= params.columns || token >= step.tokens) {
    return;
  }
  let at = token * params.columns + column;
  y[at] += x[at];
}
