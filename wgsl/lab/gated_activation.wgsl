// One invocation for each element of y.

override WG: u32 = 64;

struct Params {
  columns: u32,
  y_stride: u32,    // elements from token to token; elements after the columns are not written
  activation: u32,  // 0: silu, 1: GELU (tanh approximation)
}

struct Step {
  tokens: u32,
}

@group(0) @binding(0) var<storage, read> gate_up: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<uniform> params: Params;
@group(0) @binding(3) var<uniform> step: Step;

//#include "lab/lib/activate.wgsl"

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) global: vec3<u32>) {
  let column = global.x;
  let token = global.y;
  if (column >= params.columns || token >= step.tokens) {
    return;
  }
  let at = token * 2u * params.columns + column;
  let gate = gate_up[at];
  let up = gate_up[at + params.columns];
  y[token * params.y_stride + column] = activate(gate) * up;
}
