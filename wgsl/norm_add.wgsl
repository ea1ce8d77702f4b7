// y[t] = (y[t] + x[t] / rms(x[t]) * weight) * scale. One workgroup for each row, so that it has the complete sum.
// With NEXT it also normalizes the result: out[t] = y[t] / rms(y[t]) * next_weight.
//#if SUBGROUPS
enable subgroups;
//#endif

struct Params {
  columns: u32,
  eps: f32,
  scale: f32,
}

@group(0) @binding(0) var<storage, read> weight: array<f32>;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<uniform> params: Params;
//#if NEXT
@group(0) @binding(4) var<storage, read> next_weight: array<f32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;
//#endif

const_assert (WG & (WG - 1u)) == 0u;

//#include "lib/reduce.wgsl"

fn inverse_rms(squares: f32) -> f32 {
  return inverseSqrt(squares / f32(params.columns) + params.eps);
}

@compute @workgroup_size(WG)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
) {
  let start = group.x * params.columns;
  var squares = 0.0;
  for (var c = local; c < params.columns; c += WG) {
    squares = fma(x[start + c], x[start + c], squares);
  }
  let scale = inverse_rms(workgroup_sum(squares, local));
  var next_squares = 0.0;
  for (var c = local; c < params.columns; c += WG) {
    let sum = (y[start + c] + x[start + c] * scale * weight[c]) * params.scale;
    y[start + c] = sum;
    next_squares = fma(sum, sum, next_squares);
  }
  //#if NEXT
  // Each invocation reads only elements that it wrote.
  let next_scale = inverse_rms(workgroup_sum(next_squares, local));
  for (var c = local; c < params.columns; c += WG) {
    out[start + c] = y[start + c] * next_scale * next_weight[c];
  }
  //#endif
}
