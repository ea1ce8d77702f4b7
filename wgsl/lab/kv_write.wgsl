// One invocation for two adjacent elements of a key, and the same two of the value.
//#if F16
// The cache is bound as pairs of f16. The conversion is the only rounding, as in the variant without f16.
enable f16;
//#endif

override WG: u32 = 64;

struct Params {
  heads: u32,
  kv_heads: u32,
  head_dim: u32,
  rotary: u32,
  neox: u32,
  max_pages: u32,  // of a sequence: row length of page_table
  page: u32,       // positions in a page
}

struct Step {
  tokens: u32,
}

@group(0) @binding(0) var<storage, read> qkv: array<f32>;
@group(0) @binding(1) var<storage, read> token: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> page_table: array<u32>;
//#if F16
@group(0) @binding(3) var<storage, read_write> k_cache: array<vec2<f16>>;
@group(0) @binding(4) var<storage, read_write> v_cache: array<vec2<f16>>;
//#else
@group(0) @binding(3) var<storage, read_write> k_cache: array<u32>;
@group(0) @binding(4) var<storage, read_write> v_cache: array<u32>;
//#endif
@group(0) @binding(5) var<uniform> params: Params;
@group(0) @binding(6) var<uniform> step: Step;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) global: vec3<u32>) {
  let pairs = params.head_dim / 2u;
  let kv_head = global.x / pairs;
  let pair = global.x % pairs;
  let t = global.y;
  if (kv_head >= params.kv_heads || t >= step.tokens) {
    return;
  }
  // A row of qkv contains the heads of q, then of k, then of v.
  let row = t * (params.heads + 2u * params.kv_heads) + params.heads + kv_head;
  let k = row * params.head_dim + 2u * pair;
  let v = k + params.kv_heads * params.head_dim;
  // The cache is [page, kv head, position in the page, head_dim].
  let position = token[t].y;
  let page = page_table[token[t].z * params.max_pages + position / params.page];
  let to = ((page * params.kv_heads + kv_head) * params.page + position % params.page) * pairs + pair;
  //#if F16
  k_cache[to] = vec2<f16>(vec2(qkv[k], qkv[k + 1u]));
  v_cache[to] = vec2<f16>(vec2(qkv[v], qkv[v + 1u]));
  //#else
  k_cache[to] = pack2x16float(vec2(qkv[k], qkv[k + 1u]));
  v_cache[to] = pack2x16float(vec2(qkv[v], qkv[v + 1u]));
  //#endif
}
