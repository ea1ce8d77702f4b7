// y[r, c] = x[r, c] / sqrt(mean over c of x[r, c]^2 + eps) * weight[c]. One workgroup for each row.
// A row is a token, or a head of a token (params.heads > 1), or a sampled token (SAMPLED).
// With PROMPT, tokens of single-token tiles are skipped; `attention` normalizes them.
//#if SUBGROUPS
enable subgroups;
//#endif

struct Params {
  columns: u32,
  heads: u32,       // rows of each token
  in_stride: u32,   // elements from token to token
  in_offset: u32,
  out_stride: u32,
  out_offset: u32,
  eps: f32,
}

@group(0) @binding(0) var<storage, read> weight: array<f32>;
@group(0) @binding(1) var<storage, read> samples: array<Sample>;
//#if IN_PLACE
//#else
@group(0) @binding(2) var<storage, read> x: array<f32>;
//#endif
@group(0) @binding(3) var<storage, read_write> y: array<f32>;
@group(0) @binding(4) var<uniform> params: Params;
//#if PROMPT
@group(0) @binding(5) var<storage, read> token: array<vec4<u32>>;
//#include "lib/step.wgsl"
//#endif

const_assert (WG & (WG - 1u)) == 0u;

//#include "lib/sample_record.wgsl"
//#include "lib/reduce.wgsl"

@compute @workgroup_size(WG)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
) {
  let row = group.x;
  let head = group.y;
  //#if PROMPT
  if (token[row].w == SINGLE) {
    return;
  }
  //#endif
  //#if SAMPLED
  let start = samples[row].row * params.in_stride;
  //#else
  let start = row * params.in_stride + params.in_offset + head * params.columns;
  //#endif
  let to = row * params.out_stride + params.out_offset + head * params.columns;

  var squares = 0.0;
  for (var c = local; c < params.columns; c += WG) {
    //#if IN_PLACE
    let value = y[start + c];
    //#else
    let value = x[start + c];
    //#endif
    squares = fma(value, value, squares);
  }
  let scale = inverseSqrt(workgroup_sum(squares, local) / f32(params.columns) + params.eps);
  for (var c = local; c < params.columns; c += WG) {
    //#if IN_PLACE
    y[to + c] = y[start + c] * scale * weight[c];
    //#else
    y[to + c] = x[start + c] * scale * weight[c];
    //#endif
  }
}
