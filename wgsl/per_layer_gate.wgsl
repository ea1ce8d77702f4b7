// gate[t, c] = gelu_tanh(gate[t, c]) * inputs[t, offset + c], in place: the per-layer input of each token, gated by the
// residual stream. One thread for each element.

struct Params {
  columns: u32,
  in_stride: u32,  // of inputs, elements per token
  in_offset: u32,
}

@group(0) @binding(0) var<storage, read_write> gate: array<f32>;
@group(0) @binding(1) var<storage, read> inputs: array<f32>;
@group(0) @binding(2) var<uniform> params: Params;
@group(0) @binding(3) var<uniform> step: Step;

//#include "lib/step.wgsl"
//#include "lib/gelu_tanh.wgsl"

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) global: vec3<u32>) {
  let t = global.y;
  if (global.x >= params.columns || t >= step.tokens) {
    return;
  }
  let at = t * params.columns + global.x;
  let value = gate[at];
  let bent = value / (1.0 + exp(-gelu_tanh_exponent(value)));
  gate[at] = bent * inputs[t * params.in_stride + params.in_offset + global.x];
}
