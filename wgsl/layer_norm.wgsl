// y[t, c] = (y[t, c] - mean) / sqrt(variance + eps) * weight[c] + bias[c], over the columns of a row. One workgroup for each row.
// The mean is summed around the first column, and the variance around the mean: sums of values or squares far from zero would lose
// precision.
//#if SUBGROUPS
enable subgroups;
//#endif

struct Params {
  columns: u32,
  eps: f32,
}

@group(0) @binding(0) var<storage, read> affine: array<f32>; // weight, then bias
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<uniform> params: Params;

const_assert (WG & (WG - 1u)) == 0u;

//#include "lib/reduce.wgsl"

@compute @workgroup_size(WG)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
) {
  let start = group.x * params.columns;
  let first = y[start];
  var sum = 0.0;
  for (var c = local; c < params.columns; c += WG) {
    sum += y[start + c] - first;
  }
  let mean = first + workgroup_sum(sum, local) / f32(params.columns);
  var squares = 0.0;
  for (var c = local; c < params.columns; c += WG) {
    let off = y[start + c] - mean;
    squares = fma(off, off, squares);
  }
  let scale = inverseSqrt(workgroup_sum(squares, local) / f32(params.columns) + params.eps);
  for (var c = local; c < params.columns; c += WG) {
    y[start + c] = fma((y[start + c] - mean) * scale, affine[c], affine[params.columns + c]);
  }
}
