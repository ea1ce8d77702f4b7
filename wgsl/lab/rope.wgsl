// One invocation for each rotation: two elements of a head of q or k, rotated by the angle of their pair at the position.

override WG: u32 = 64;

struct Params {
  heads: u32,
  kv_heads: u32,
  head_dim: u32,
  rotary: u32,     // rotated elements of a head; the others are unchanged
  neox: u32,       // 1: pairs are (i, i + rotary / 2), else (2i, 2i + 1)
  max_pages: u32,
  page: u32,
}

struct Step {
  tokens: u32,
}

@group(0) @binding(0) var<storage, read_write> qkv: array<f32>;
@group(0) @binding(1) var<storage, read> table: array<vec2<f32>>;
@group(0) @binding(2) var<storage, read> token: array<vec4<u32>>;
@group(0) @binding(3) var<uniform> params: Params;
@group(0) @binding(4) var<uniform> step: Step;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) global: vec3<u32>) {
  let half = params.rotary / 2u;
  let head = global.x / half;
  let pair = global.x % half;
  let t = global.y;
  if (head >= params.heads + params.kv_heads || t >= step.tokens) {
    return;
  }
  // A row of qkv contains the heads of q, then of k, then of v.
  let start = (t * (params.heads + 2u * params.kv_heads) + head) * params.head_dim;
  let is_neox = params.neox != 0u;
  let low = start + select(2u * pair, pair, is_neox);
  let high = low + select(1u, half, is_neox);
  let turn = table[token[t].y * half + pair]; // cosine and sine
  let a = qkv[low];
  let b = qkv[high];
  qkv[low] = a * turn.x - b * turn.y;
  qkv[high] = a * turn.y + b * turn.x;
}
