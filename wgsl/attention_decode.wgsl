// Attention of single tokens of sequences over a split of their context, or over all of it (lib/attention.wgsl).
// With ROPE, this kernel rotates q, and rotates the key of the token and writes it and its value to the cache; with QK_NORM it
// first normalizes the heads of q and k, and with params.v_norm those of v. Without params.writes, keys and values are those of
// another layer and are in the cache already. Without ROPE, rope_kv_write has done all that.
// With WINDOW, a token attends to the last params.window positions, including its own; earlier ones are not read.
// With SINKS, a learned score of each head takes part in the softmax, without a value; if the context is split,
// attention_combine adds it.
// The upper half of a tile's second word is the number of positions in a split.
//#if SUBGROUPS
enable subgroups;
//#endif

struct Params {
  heads: u32,
  kv_heads: u32,
  max_pages: u32,     // of a sequence: row length of page_table
  out_stride: u32,    // of out, elements per token
  scale: f32,
  loop_limit: u32,    // loop limit: larger than QROWS
  window: u32,        // WINDOW
  max_splits: u32,    // SPLIT
  rotary: u32,        // ROPE: rotated elements of a head
  eps: f32,           // QK_NORM
  writes: u32,        // ROPE
  v_norm: u32,        // QK_NORM
}

@group(0) @binding(0) var<storage, read> qkv: array<f32>;
@group(0) @binding(1) var<storage, read> tiles: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> page_table: array<u32>;
//#if ROPE
@group(0) @binding(3) var<storage, read_write> k_cache: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> v_cache: array<u32>;
@group(0) @binding(7) var<storage, read> table: array<vec2<f32>>;
//#if QK_NORM
@group(0) @binding(8) var<storage, read> norm_weight: array<f32>; // of q's heads, then of k's, then of v's
//#endif
//#else
@group(0) @binding(3) var<storage, read> k_cache: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> v_cache: array<u32>;
//#endif
//#if SINKS
@group(0) @binding(8) var<storage, read> sinks: array<f32>; // [heads]
//#endif
// [tokens, out_stride], or with SPLIT [tiles, heads, max_splits, HEAD_DIM + 2]: sums, then largest score and mass.
@group(0) @binding(5) var<storage, read_write> out: array<vec2<f32>>;
@group(0) @binding(6) var<uniform> params: Params;

//#include "lib/attention.wgsl"

fn sees(position: u32, place: u32, end: u32) -> bool {
  //#if WINDOW
  return position < end && position + params.window > place;
  //#else
  return position < end;
  //#endif
}

//#if ROPE
// Key and value of the token are not read back from the cache: other lanes, and other workgroups with the same key head, may not
// have written them yet. Lane l has words l, l + LANES, ... of both.
var<private> own_key: array<vec4<u32>, (HEAD_DIM / 8u + LANES - 1u) / LANES>;
var<private> own_value: array<u32, PER / 2u>;

fn key_words(row: u32, d: u32, base: u32, lane: u32, range: Range) -> vec4<u32> {
  var words = k_cache[(row + d / 2u) / 4u];
  if (range.own < base + LANES) {
    let own = subgroupShuffle(own_key[d / 8u / LANES], d / 8u % LANES);
    words = select(words, own, base + lane == range.own);
  }
  return words;
}

// Positions past the end have the row of the last one and weight 0, which would leave a NaN of unwritten memory a NaN.
fn value_word(row: u32, w: u32, position: u32, range: Range) -> u32 {
  return select(v_cache[row + w], own_value[w / LANES], position >= range.own);
}

// 1 / RMS of a head of qkv, summed in the same order as in rms_norm.
fn head_scale(base: u32, lane: u32) -> f32 {
  //#if QK_NORM
  var squares = 0.0;
  for (var e = lane; e < min(HEAD_DIM, params.loop_limit); e += LANES) {
    squares = fma(qkv[base + e], qkv[base + e], squares);
  }
  return inverseSqrt(workgroup_sum(squares, lane) / f32(HEAD_DIM) + params.eps);
  //#else
  return 1.0;
  //#endif
}

//#include "lib/rotated_head.wgsl"

// Rotated and scaled queries. Loop bounds that the compiler does not know prevent unrolling. A lane reads what it wrote.
var<workgroup> turned: array<f32, QROWS * HEAD_DIM>;

fn turn_queries(tile: vec4<u32>, head0: u32, lane: u32) -> Queries {
  for (var r = 0u; r < min(QROWS, params.loop_limit); r++) {
    let start = query_start(tile, head0, r);
    let scale = head_scale(start, lane);
    for (var e = lane; e < min(HEAD_DIM, params.loop_limit); e += LANES) {
      turned[r * HEAD_DIM + e] = rotated(start, e, tile.w, scale, 0u) * params.scale;
    }
  }
  var q = Queries();
  for (var r = 0u; r < QROWS; r++) {
    for (var i = 0u; i < PER; i++) {
      q[r * PER + i] = turned[r * HEAD_DIM + i * LANES + lane];
    }
  }
  return q;
}

// The key and the value of the token, for this workgroup and, from one of those with the key head, for the cache.
fn write_own(tile: vec4<u32>, kv_head: u32, is_first: bool, lane: u32) {
  let k_start = tile.x * q_stride() + (params.heads + kv_head) * HEAD_DIM;
  let v_start = k_start + params.kv_heads * HEAD_DIM;
  let k_scale = head_scale(k_start, lane);
  //#if QK_NORM
  var v_scale = 1.0;
  if (params.v_norm != 0u) {
    v_scale = head_scale(v_start, lane);
  }
  //#endif
  let row = cache_row(tile.z, tile.w, kv_head);
  for (var eight = lane; eight < min(HEAD_DIM / 8u, params.loop_limit); eight += LANES) {
    var words = vec4<u32>();
    for (var w = 0u; w < min(4u, params.loop_limit); w++) {
      let e = eight * 8u + 2u * w;
      words[w] = pack2x16float(vec2(
        rotated(k_start, e, tile.w, k_scale, HEAD_DIM),
        rotated(k_start, e + 1u, tile.w, k_scale, HEAD_DIM),
      ));
    }
    own_key[eight / LANES] = words;
    if (is_first) {
      k_cache[row / 4u + eight] = words;
    }
  }
  for (var w = lane; w < min(HEAD_DIM / 2u, params.loop_limit); w += LANES) {
    var pair = vec2(qkv[v_start + 2u * w], qkv[v_start + 2u * w + 1u]);
    //#if QK_NORM
    if (params.v_norm != 0u) {
      pair *= v_scale * vec2(norm_weight[2u * HEAD_DIM + 2u * w], norm_weight[2u * HEAD_DIM + 2u * w + 1u]);
    }
    //#endif
    let word = pack2x16float(pair);
    own_value[w / LANES] = word;
    if (is_first) {
      v_cache[row + w] = word;
    }
  }
}
//#else
//#include "lib/cache_words.wgsl"
//#endif

@compute @workgroup_size(LANES)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let tile = tiles[group.x];
  let kv_head = key_head(group.y);
  let head0 = group.y * GROUP;
  let split = group.z;
  //#if SPLIT
  let split_tokens = tile.y >> 16u;
  var first = split * split_tokens;
  let end = min(first + split_tokens, tile.w + 1u);
  //#else
  var first = 0u;
  let end = tile.w + 1u;
  //#endif
  //#if WINDOW
  // Chunks of LANES positions are aligned as without a window, so the sums of a token do not depend on its tile.
  let oldest = oldest_position(tile);
  if (oldest >= end) {
    return;
  }
  first += (max(oldest, first) - first) / LANES * LANES;
  //#endif
  if (first >= end) {
    return;
  }
  var range = Range(first, end, NONE);
  //#if ROPE
  if (params.writes != 0u && end == tile.w + 1u) {
    write_own(tile, kv_head, group.y % (params.heads / params.kv_heads / GROUP) == 0u, lane);
    range.own = tile.w;
  }
  let q = turn_queries(tile, head0, lane);
  //#else
  let q = load_queries(tile, head0, lane);
  //#endif
  let sums = attend(q, tile, kv_head, head0, range, lane);
  //#if SPLIT
  store_split(sums, (group.x * params.heads + head0) * params.max_splits + split, lane);
  //#else
  store_context(sums, tile, head0, lane);
  //#endif
}

//#if SPLIT
// Only tiles of one token are split, so the tile determines the row: that of the first head.
fn store_split(sums: Sums, row: u32, lane: u32) {
  var rows = sums;
  for (var r = 0u; r < min(QROWS, params.loop_limit); r++) {
    let to = (row + r * params.max_splits) * (HEAD_DIM / 2u + 1u);
    if (lane == 0u) {
      out[to + HEAD_DIM / 2u] = vec2(rows.largest[r], rows.mass[r]);
    }
    for (var w = 0u; w < PER / 2u; w++) {
      out[to + w * LANES + lane] = vec2(rows.sum[r * PER + 2u * w], rows.sum[r * PER + 2u * w + 1u]);
    }
  }
}
//#endif
