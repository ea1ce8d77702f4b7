// One invocation for two elements of a head: in q a rotated pair, in k and v the two elements of a cache word.
//#if F16
// The cache is bound as pairs of f16. The conversion is the only rounding, as in the variant without f16.
enable f16;
//#endif

override WG: u32 = 64;

struct Params {
  heads: u32,
  kv_heads: u32,
  head_dim: u32,
  rotary: u32,     // rotated elements of a head; the others are unchanged
  neox: u32,       // 1: pairs are (i, i + rotary / 2), else (2i, 2i + 1)
  max_pages: u32,  // of a sequence: row length of page_table
  page: u32,       // positions in a page
}

struct Step {
  tokens: u32,
}

@group(0) @binding(0) var<storage, read_write> qkv: array<f32>;
@group(0) @binding(1) var<storage, read> table: array<vec2<f32>>;
@group(0) @binding(2) var<storage, read> token: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> page_table: array<u32>;
//#if F16
@group(0) @binding(4) var<storage, read_write> k_cache: array<vec2<f16>>;
@group(0) @binding(5) var<storage, read_write> v_cache: array<vec2<f16>>;
//#else
@group(0) @binding(4) var<storage, read_write> k_cache: array<u32>;
@group(0) @binding(5) var<storage, read_write> v_cache: array<u32>;
//#endif
@group(0) @binding(6) var<uniform> params: Params;
@group(0) @binding(7) var<uniform> step: Step;

// The two elements of pair `pair` of a head.
fn turning(pair: u32) -> vec2<u32> {
  if (params.neox != 0u) {
    return vec2(pair, pair + params.rotary / 2u);
  }
  return vec2(2u * pair, 2u * pair + 1u);
}

// One rotated element of a head of k. q is rotated in place by another part of `main`; k is not changed, so that every
// invocation can read both elements of a pair.
fn rotated(start: u32, element: u32, position: u32) -> f32 {
  if (element >= params.rotary) {
    return qkv[start + element];
  }
  let half = params.rotary / 2u;
  let pair = select(element / 2u, element % half, params.neox != 0u);
  let both = turning(pair);
  let a = qkv[start + both.x];
  let b = qkv[start + both.y];
  let turn = table[position * half + pair]; // cosine and sine
  return select(a * turn.y + b * turn.x, a * turn.x - b * turn.y, element == both.x);
}

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) global: vec3<u32>) {
  let pairs = params.head_dim / 2u;
  let head = global.x / pairs;
  let pair = global.x % pairs;
  let t = global.y;
  // A row of qkv contains the heads of q, then of k, then of v.
  let all_heads = params.heads + 2u * params.kv_heads;
  if (head >= all_heads || t >= step.tokens) {
    return;
  }
  let start = (t * all_heads + head) * params.head_dim;
  let position = token[t].y;
  if (head < params.heads) {
    if (pair < params.rotary / 2u) {
      let both = turning(pair);
      let turn = table[position * (params.rotary / 2u) + pair];
      let a = qkv[start + both.x];
      let b = qkv[start + both.y];
      qkv[start + both.x] = a * turn.x - b * turn.y;
      qkv[start + both.y] = a * turn.y + b * turn.x;
    }
    return;
  }
  // The cache is [page, kv head, position in the page, head_dim].
  let kv_head = (head - params.heads) % params.kv_heads;
  let page = page_table[token[t].z * params.max_pages + position / params.page];
  let to = ((page * params.kv_heads + kv_head) * params.page + position % params.page) * pairs + pair;
  let e = 2u * pair;
  if (head < params.heads + params.kv_heads) {
    let key = vec2(rotated(start, e, position), rotated(start, e + 1u, position));
    //#if F16
    k_cache[to] = vec2<f16>(key);
    //#else
    k_cache[to] = pack2x16float(key);
    //#endif
  } else {
    let value = vec2(qkv[start + e], qkv[start + e + 1u]);
    //#if F16
    v_cache[to] = vec2<f16>(value);
    //#else
    v_cache[to] = pack2x16float(value);
    //#endif
  }
}
