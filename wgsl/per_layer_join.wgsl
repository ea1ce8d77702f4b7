// y[t, l] = (y[t, l] / rms(y[t, l]) * weight + W[t, l] * row_scale) * scale, in place. One workgroup for each layer
// part of a token's row. Row t of W belongs to token t of the step: the host writes it before every step.
//#if SUBGROUPS
enable subgroups;
//#endif

struct Params {
  columns: u32,    // of a layer, a multiple of 32
  layers: u32,
  blocks: u32,     // of a row of W
  eps: f32,
  row_scale: f32,
  scale: f32,
}

@group(0) @binding(0) var<storage, read> quants: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> scales: array<u32>;
@group(0) @binding(2) var<storage, read> weight: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> y: array<vec4<f32>>;
@group(0) @binding(4) var<uniform> params: Params;

const_assert (WG & (WG - 1u)) == 0u;

//#include "lib/reduce.wgsl"
//#include "lib/weight_$FORMAT.wgsl"

@compute @workgroup_size(WG)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
) {
  let quads = params.columns / 4u;
  let first = (group.y * params.layers + group.x) * quads;
  var squares = 0.0;
  for (var q = local; q < quads; q += WG) {
    let value = y[first + q];
    squares += dot(value, value);
  }
  let norm = inverseSqrt(workgroup_sum(squares, local) / f32(params.columns) + params.eps);
  for (var q = local; q < quads; q += WG) {
    let at = first + q;
    let row = load_quad(at / 8u, at % 8u);
    y[at] = (y[at] * norm * weight[q] + row * params.row_scale) * params.scale;
  }
}
