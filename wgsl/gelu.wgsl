// y[t, c] = gelu(y[t, c]) = y / 2 * (1 + erf(y / sqrt 2)), in place; rows can be padded to whole blocks.

struct Params {
  columns: u32,
  stride: u32,  // elements from row to row
}

@group(0) @binding(0) var<storage, read_write> y: array<f32>;
@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<uniform> step: Step;

//#include "lib/step.wgsl"

// Abramowitz and Stegun 7.1.26: absolute error below 1.5e-7.
fn erf(x: f32) -> f32 {
  let t = 1.0 / (1.0 + 0.3275911 * abs(x));
  let series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  return sign(x) * (1.0 - series * exp(-x * x));
}

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) global: vec3<u32>) {
  let t = global.y;
  if (global.x >= params.columns || t >= step.tokens) {
    return;
  }
  let at = t * params.stride + global.x;
  y[at] = 0.5 * y[at] * (1.0 + erf(y[at] * 0.70710678));
}
