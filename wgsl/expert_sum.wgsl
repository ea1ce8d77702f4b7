// hidden[t, c] += sum over the experts of token t of share * x[pair, c]; one thread for four columns.
struct Params {
  quads: u32, // width / 4
  used: u32,
}

@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
// [token, used] of (expert, share)
@group(0) @binding(1) var<storage, read> routes: array<u32>;
@group(0) @binding(2) var<storage, read_write> hidden: array<vec4<f32>>;
@group(0) @binding(3) var<uniform> params: Params;

@compute @workgroup_size(WG)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
) {
  let quad = group.x * WG + local;
  if (quad >= params.quads) {
    return;
  }
  var sum = vec4(0.0);
  for (var n = 0u; n < params.used; n++) {
    let pair = group.y * params.used + n;
    sum = fma(x[pair * params.quads + quad], vec4(bitcast<f32>(routes[2u * pair + 1u])), sum);
  }
  hidden[group.y * params.quads + quad] += sum;
}
