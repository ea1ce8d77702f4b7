// y[s] = x[row of sample s]: gathers the rows whose logits are needed.

struct Params {
  columns: u32,
}

@group(0) @binding(0) var<storage, read> samples: array<Sample>;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<uniform> params: Params;

//#include "lib/sample_record.wgsl"

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) global: vec3<u32>) {
  if (global.x < params.columns) {
    y[global.y * params.columns + global.x] = x[samples[global.y].row * params.columns + global.x];
  }
}
