// One workgroup for each query head of a token. It processes the context in chunks of WG positions: each invocation
// computes the score of one position, then all sum values, two elements of the head each. Online softmax: the largest
// score so far is subtracted in every exponent; if a chunk has a larger one, the previous sums are rescaled.
//#if F16
// Keys and values are read from the cache as f16, without unpacking words. All arithmetic is in f32: scores of some
// models are so large that a softmax of f16 scores would have errors of several percent.
enable f16;
//#endif
//#if SUBGROUPS
enable subgroups;
//#endif

override WG: u32 = 64;

struct Params {
  heads: u32,
  kv_heads: u32,   // heads / kv_heads query heads share a head of k and v
  head_dim: u32,   // a multiple of 8
  max_pages: u32,  // of a sequence: row length of page_table
  page: u32,       // positions in a page
  scale: f32,      // factor of scores: 1 / sqrt(head_dim) in most models
  window: u32,     // sliding window: positions that a token reads, including its own; 0: all
}

struct Step {
  tokens: u32,
}

@group(0) @binding(0) var<storage, read> qkv: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> token: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> page_table: array<u32>;
//#if F16
@group(0) @binding(3) var<storage, read> k_cache: array<vec4<f16>>;
@group(0) @binding(4) var<storage, read> v_cache: array<vec2<f16>>;
//#else
@group(0) @binding(3) var<storage, read> k_cache: array<vec2<u32>>;
@group(0) @binding(4) var<storage, read> v_cache: array<u32>;
//#endif
@group(0) @binding(5) var<storage, read_write> out: array<vec2<f32>>;
@group(0) @binding(6) var<uniform> params: Params;
@group(0) @binding(7) var<uniform> step: Step;

const LOWEST = -3.0e38;

// For each position of a chunk: e^(score - largest score), and the cache row.
var<workgroup> shares: array<f32, WG>;
var<workgroup> rows: array<u32, WG>;

//#include "lab/lib/workgroup_sum.wgsl"

//#include "lab/lib/workgroup_max.wgsl"

// The cache is [page, kv head, position in the page, head_dim]; this is the index of a row of head_dim elements.
fn cache_row(slot: u32, position: u32, kv_head: u32) -> u32 {
  let page = page_table[slot * params.max_pages + position / params.page];
  return (page * params.kv_heads + kv_head) * params.page + position % params.page;
}

fn key_quad(row: u32, quad: u32) -> vec4<f32> {
  let four = k_cache[row * (params.head_dim / 4u) + quad];
  //#if F16
  return vec4<f32>(four);
  //#else
  return vec4(unpack2x16float(four.x), unpack2x16float(four.y));
  //#endif
}

fn value_pair(row: u32, pair: u32) -> vec2<f32> {
  let two = v_cache[row * (params.head_dim / 2u) + pair];
  //#if F16
  return vec2<f32>(two);
  //#else
  return unpack2x16float(two);
  //#endif
}

@compute @workgroup_size(WG)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
) {
  let head = group.x;
  let t = group.y;
  if (head >= params.heads || t >= step.tokens) {
    return;
  }
  let quads = params.head_dim / 4u;
  let pairs = params.head_dim / 2u;
  // A row of qkv contains the heads of q, then of k, then of v.
  let query = (t * (params.heads + 2u * params.kv_heads) + head) * quads;
  let result = (t * params.heads + head) * pairs;
  let kv_head = head / (params.heads / params.kv_heads);
  let position = token[t].y;
  let slot = token[t].z;

  // With a window, positions before it are not read.
  let window = select(params.window, position + 1u, params.window == 0u || params.window > position);
  let oldest = position + 1u - window;

  var greatest = LOWEST;
  var mass = 0.0;
  for (var first = oldest; first <= position; first += WG) {
    let count = min(WG, position + 1u - first);
    var score = LOWEST;
    if (local < count) {
      let row = cache_row(slot, first + local, kv_head);
      rows[local] = row;
      score = 0.0;
      for (var quad = 0u; quad < quads; quad++) {
        score += dot(qkv[query + quad], key_quad(row, quad));
      }
      score *= params.scale;
    }
    let now = max(greatest, workgroup_max(score, local, count));
    let shrink = exp(greatest - now); // 0 for the first chunk
    greatest = now;
    let share = select(0.0, exp(score - now), local < count);
    shares[local] = share;
    mass = mass * shrink + workgroup_sum(share, local, count); // its barriers also make `shares` and `rows` visible to all
    for (var pair = local; pair < pairs; pair += WG) {
      var sum = vec2(0.0);
      if (first > oldest) {
        sum = out[result + pair] * shrink;
      }
      for (var n = 0u; n < count; n++) {
        sum = fma(vec2(shares[n]), value_pair(rows[n], pair), sum);
      }
      out[result + pair] = sum;
    }
    workgroupBarrier(); // the next chunk writes to `shares` and `rows`
  }
  for (var pair = local; pair < pairs; pair += WG) {
    out[result + pair] /= mass;
  }
}
