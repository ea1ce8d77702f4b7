// y[t, c] *= sigmoid(gate[t, c]).

struct Params {
  columns: u32,
  stride: u32,       // of y, from token to token
  gate_stride: u32,
}

@group(0) @binding(0) var<storage, read> gate: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) global: vec3<u32>) {
  if (global.x >= params.columns) {
    return;
  }
  let at = global.y * params.stride + global.x;
  y[at] = y[at] / (1.0 + exp(-gate[global.y * params.gate_stride + global.x]));
}
