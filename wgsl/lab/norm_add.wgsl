// A workgroup normalizes one row and adds it to y: its invocations process interleaved columns, then sum their squares.
//#if SUBGROUPS
enable subgroups;
//#endif

override WG: u32 = 64;

struct Params {
  columns: u32,
  eps: f32,
}

struct Step {
  tokens: u32,
}

@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> norm_weight: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<uniform> params: Params;
@group(0) @binding(4) var<uniform> step: Step;

//#include "lab/lib/workgroup_sum.wgsl"

@compute @workgroup_size(WG)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
) {
  let token = group.x;
  if (token >= step.tokens) {
    return;
  }
  let start = token * params.columns;
  var squares = 0.0;
  for (var c = local; c < params.columns; c += WG) {
    squares = fma(x[start + c], x[start + c], squares);
  }
  let mean = workgroup_sum(squares, local, params.columns) / f32(params.columns);
  let inverse_rms = inverseSqrt(mean + params.eps);
  for (var c = local; c < params.columns; c += WG) {
    y[start + c] += x[start + c] * inverse_rms * norm_weight[c];
  }
}
