// y[t, h, c] = y[t, h, c] / sqrt(mean over c of y[t, h, c]^2 + eps) * weight[c] * silu(gate[t, h, c]), in place:
// one workgroup for each head of a token. The gates are in a wider row, from gate_offset on.
//#if SUBGROUPS
enable subgroups;
//#endif

struct Params {
  columns: u32,      // of a head
  stride: u32,       // of y, from token to token
  gate_stride: u32,
  gate_offset: u32,
  heads: u32,
  eps: f32,
}

@group(0) @binding(0) var<storage, read> weight: array<f32>;
@group(0) @binding(1) var<storage, read> gate: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<uniform> params: Params;

const_assert (WG & (WG - 1u)) == 0u;

//#include "lib/reduce.wgsl"

@compute @workgroup_size(WG)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
) {
  let start = group.x * params.stride + group.y * params.columns;
  let gates = group.x * params.gate_stride + params.gate_offset + group.y * params.columns;
  var squares = 0.0;
  for (var c = local; c < params.columns; c += WG) {
    let value = y[start + c];
    squares = fma(value, value, squares);
  }
  let scale = inverseSqrt(workgroup_sum(squares, local) / f32(params.columns) + params.eps);
  for (var c = local; c < params.columns; c += WG) {
    let opening = gate[gates + c];
    y[start + c] = y[start + c] * scale * weight[c] * opening / (1.0 + exp(-opening));
  }
}
