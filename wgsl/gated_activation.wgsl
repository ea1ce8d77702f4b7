// y[t, c] = silu(gate[t, c]) * up[t, c]; gate_up[t] = [gate, up].
// With GELU_TANH, the activation is GELU (tanh approximation).

struct Params {
  columns: u32,
  out_stride: u32,  // of y; more than columns if the next matmul needs whole blocks
}

@group(0) @binding(0) var<storage, read> gate_up: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<uniform> params: Params;
@group(0) @binding(3) var<uniform> step: Step;

//#include "lib/step.wgsl"
//#if GELU_TANH
//#include "lib/gelu_tanh.wgsl"
//#endif

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) global: vec3<u32>) {
  let t = global.y;
  if (global.x >= params.columns || t >= step.tokens) {
    return;
  }
  let at = t * 2u * params.columns + global.x;
  let gate = gate_up[at];
  //#if GELU_TANH
  let curve = gelu_tanh_exponent(gate);
  //#else
  let curve = gate;
  //#endif
  y[t * params.out_stride + global.x] = gate / (1.0 + exp(-curve)) * gate_up[at + params.columns];
}
