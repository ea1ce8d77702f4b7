// A workgroup normalizes one head of one token in place.
//#if SUBGROUPS
enable subgroups;
//#endif

override WG: u32 = 64;

struct Params {
  count: u32,     // heads that are normalized
  head_dim: u32,
  stride: u32,    // elements from token to token
  offset: u32,    // offset of the first head
  eps: f32,
}

struct Step {
  tokens: u32,
}

@group(0) @binding(0) var<storage, read_write> qkv: array<f32>;
@group(0) @binding(1) var<storage, read> norm_weight: array<f32>;
@group(0) @binding(2) var<uniform> params: Params;
@group(0) @binding(3) var<uniform> step: Step;

//#include "lab/lib/workgroup_sum.wgsl"

@compute @workgroup_size(WG)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
) {
  let head = group.x;
  let token = group.y;
  if (head >= params.count || token >= step.tokens) {
    return;
  }
  let start = token * params.stride + params.offset + head * params.head_dim;
  var squares = 0.0;
  for (var d = local; d < params.head_dim; d += WG) {
    squares = fma(qkv[start + d], qkv[start + d], squares);
  }
  let mean = workgroup_sum(squares, local, params.head_dim) / f32(params.head_dim);
  let inverse_rms = inverseSqrt(mean + params.eps);
  // Each invocation writes only elements that it alone has read.
  for (var d = local; d < params.head_dim; d += WG) {
    qkv[start + d] = qkv[start + d] * inverse_rms * norm_weight[d];
  }
}
