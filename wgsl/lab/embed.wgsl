// One invocation for four columns of a token.

override WG: u32 = 64;

struct Params {
  blocks: u32,  // columns / 32
  scale: f32,
}

struct Step {
  tokens: u32,
}

@group(0) @binding(0) var<storage, read> quants: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> scales: array<u32>;
@group(0) @binding(2) var<storage, read> token: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> sampled: array<u32>;
@group(0) @binding(4) var<storage, read_write> y: array<vec4<f32>>;
@group(0) @binding(5) var<uniform> params: Params;
@group(0) @binding(6) var<uniform> step: Step;

const LAST_DRAWN = 0xffffffffu;
alias Quad = vec4<f32>;

//#include "lab/lib/weights.wgsl"

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) global: vec3<u32>) {
  let quad = global.x;
  let t = global.y;
  if (quad >= params.blocks * 8u || t >= step.tokens) {
    return;
  }
  var id = token[t].x;
  if (id == LAST_DRAWN) {
    // The host does not know yet the token that the previous step sampled.
    id = sampled[token[t].z];
  }
  let block = id * params.blocks + quad / 8u;
  let weights = weight_quad(block, quad % 8u) * block_scale(block);
  y[t * params.blocks * 8u + quad] = weights * params.scale;
}
