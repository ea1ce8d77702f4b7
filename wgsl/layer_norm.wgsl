// y[t, c] = (y[t, c] - mean) / sqrt(variance + eps) * weight[c] + bias[c], over the columns of a row. One workgroup for each row.
// The variance is summed around the mean, because the difference of two sums of squares would lose all precision. The differences
// are summed as well, and correct the mean, whose sum is rounded where the values are far from zero.
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
  let count = f32(params.columns);
  var sum = 0.0;
  for (var c = local; c < params.columns; c += WG) {
    sum += y[start + c];
  }
  let about = workgroup_sum(sum, local) / count;
  var rest = 0.0;
  var squares = 0.0;
  for (var c = local; c < params.columns; c += WG) {
    let off = y[start + c] - about;
    rest += off;
    squares = fma(off, off, squares);
  }
  let shift = workgroup_sum(rest, local) / count;
  let scale = inverseSqrt(max(workgroup_sum(squares, local) / count - shift * shift, 0.0) + params.eps);
  let mean = about + shift;
  for (var c = local; c < params.columns; c += WG) {
    y[start + c] = fma((y[start + c] - mean) * scale, affine[c], affine[params.columns + c]);
  }
}
