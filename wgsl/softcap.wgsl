// y[s] = cap * tanh(y[s] / cap), in place, for the rows of sampled tokens. One thread for each element.

struct Params {
  columns: u32,
  cap: f32,
}

@group(0) @binding(0) var<storage, read_write> y: array<f32>;
@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<uniform> step: Step;

//#include "lib/step.wgsl"

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) global: vec3<u32>) {
  if (global.x >= params.columns || global.y >= step.samples) {
    return;
  }
  let at = global.y * params.columns + global.x;
  // NaN is kept, so that no token is sampled from it.
  if ((bitcast<u32>(y[at]) & 0x7fffffffu) <= 0x7f800000u) {
    // Beyond 15, tanh is constant in f32, and NaN on some adapters. Near 0, it is the difference of two almost equal
    // numbers.
    let x = clamp(y[at] / params.cap, -15.0, 15.0);
    y[at] = params.cap * select(tanh(x), fma(x * x, -x / 3.0, x), abs(x) < 0.02);
  }
}
