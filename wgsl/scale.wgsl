// y[t] *= scale, in place. One thread for each element.

struct Params {
  columns: u32,
  scale: f32,
}

@group(0) @binding(0) var<storage, read_write> y: array<f32>;
@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<uniform> step: Step;

//#include "lib/step.wgsl"

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) global: vec3<u32>) {
  if (global.x < params.columns && global.y < step.tokens) {
    y[global.y * params.columns + global.x] *= params.scale;
  }
}
