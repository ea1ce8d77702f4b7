// Applies rope to q and k of qkv[t] and writes k and v to the cache as f16; q is rotated in place.
// One thread for four elements of a head. Cache: [page, kv head, PAGE slots, head_dim], two f16 in each word.
// Without params.writes only q is rotated, and the cache is not written: keys and values are those of another layer.
// With PROMPT, tokens of single-token tiles are skipped; `attention` processes them. Pairs are (2i, 2i+1), or (i, i + rotary/2) with NEOX; table[position, i] = (cos, sin).

struct Params {
  heads: u32,
  kv_heads: u32,
  head_dim: u32,
  rotary: u32,      // rotated elements of a head; the others are unchanged
  max_pages: u32,   // of a sequence: row length of page_table
  writes: u32,
}

@group(0) @binding(0) var<storage, read_write> qkv: array<f32>;
@group(0) @binding(1) var<storage, read> table: array<vec2<f32>>;
@group(0) @binding(2) var<storage, read> token: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> page_table: array<u32>;
@group(0) @binding(4) var<storage, read_write> k_cache: array<u32>;
@group(0) @binding(5) var<storage, read_write> v_cache: array<u32>;
@group(0) @binding(6) var<uniform> params: Params;
@group(0) @binding(7) var<uniform> step: Step;

//#include "lib/step.wgsl"

fn rotate(pair: vec2<f32>, turn: vec2<f32>) -> vec2<f32> {
  return vec2(pair.x * turn.x - pair.y * turn.y, pair.x * turn.y + pair.y * turn.x);
}

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) global: vec3<u32>) {
  let quads = params.head_dim / 4u;
  let t = global.y;
  let head = global.x / quads;
  let quad = global.x % quads;
  let all_heads = params.heads + 2u * params.kv_heads;
  if (head >= select(params.heads, all_heads, params.writes != 0u) || t >= step.tokens) {
    return;
  }
  //#if PROMPT
  if (token[t].w == SINGLE) {
    return;
  }
  //#endif
  let position = token[t].y;
  let base = (t * all_heads + head) * params.head_dim;

  // The two pairs of this thread, as offsets in the head: low.x with low.y (interleaved) or low with high (NEOX).
  var low = vec2(quad * 4u, quad * 4u + 1u);
  var high = low + 2u;
  let half = params.rotary / 2u;
  //#if NEOX
  // Threads below rotary/4 process two elements of the lower half and their partners; the other elements are not rotated.
  let rotated = quad * 4u < params.rotary;
  if (rotated) {
    low = vec2(quad * 2u, quad * 2u + 1u);
    high = low + half;
  }
  //#else
  let rotated = quad * 4u < params.rotary;
  //#endif

  var a = vec2(qkv[base + low.x], qkv[base + low.y]);
  var b = vec2(qkv[base + high.x], qkv[base + high.y]);
  if (rotated && head < params.heads + params.kv_heads) {
    let turns = position * half;
    //#if NEOX
    let first = rotate(vec2(a.x, b.x), table[turns + low.x]);
    let second = rotate(vec2(a.y, b.y), table[turns + low.y]);
    a = vec2(first.x, second.x);
    b = vec2(first.y, second.y);
    //#else
    a = rotate(a, table[turns + low.x / 2u]);
    b = rotate(b, table[turns + high.x / 2u]);
    //#endif
  }
  if (head < params.heads) {
    qkv[base + low.x] = a.x;
    qkv[base + low.y] = a.y;
    qkv[base + high.x] = b.x;
    qkv[base + high.y] = b.y;
    return;
  }
  let page = page_table[token[t].z * params.max_pages + position / PAGE];
  let kv_head = (head - params.heads) % params.kv_heads;
  let row = ((page * params.kv_heads + kv_head) * PAGE + position % PAGE) * params.head_dim;
  if (head < params.heads + params.kv_heads) {
    k_cache[(row + low.x) / 2u] = pack2x16float(a);
    k_cache[(row + high.x) / 2u] = pack2x16float(b);
  } else {
    v_cache[(row + low.x) / 2u] = pack2x16float(a);
    v_cache[(row + high.x) / 2u] = pack2x16float(b);
  }
}
