// Attention of single tokens of sequences over a split of their context, or over all of it, for GPUs (flash decoding). Like
// attention_decode, with the same bindings and modes, but SUBS subgroups of a workgroup share the positions, and the lanes of a
// subgroup share a position: KEY_LANES lanes read a key and a value of it, 8 elements each, so a subgroup reads whole rows.
// Every lane keeps its own running maximum and sums; they are merged at the end.
enable subgroups;

struct Params {
  heads: u32,
  kv_heads: u32,
  max_pages: u32,     // of a sequence: row length of page_table
  out_stride: u32,    // of out, elements per token
  scale: f32,
  loop_limit: u32,    // loop limit: larger than GROUP and HEAD_DIM
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
@group(0) @binding(4) var<storage, read_write> v_cache: array<vec4<u32>>;
@group(0) @binding(7) var<storage, read> table: array<vec2<f32>>;
//#if QK_NORM
@group(0) @binding(8) var<storage, read> norm_weight: array<f32>; // of q's heads, then of k's, then of v's
//#endif
//#else
@group(0) @binding(3) var<storage, read> k_cache: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> v_cache: array<vec4<u32>>;
//#endif
//#if SINKS
@group(0) @binding(8) var<storage, read> sinks: array<f32>; // [heads]
//#endif
// [tokens, out_stride], or with SPLIT [tiles, heads, max_splits, HEAD_DIM + 2]: sums, then largest score and mass.
@group(0) @binding(5) var<storage, read_write> out: array<f32>;
@group(0) @binding(6) var<uniform> params: Params;

const THREADS = LANES * SUBS;
const PLACES = LANES / KEY_LANES;        // positions that a subgroup reads at once
const CHUNKS = HEAD_DIM / 8u / KEY_LANES; // of 8 elements of a head, in each lane
const PER = CHUNKS * 8u;
const TURNS = max(1u, 4u / CHUNKS);      // positions of a lane whose loads are in flight together
const LOWEST = -3.0e38;
const_assert KEY_LANES * CHUNKS * 8u == HEAD_DIM;
const_assert KEY_LANES * PLACES == LANES;

// Place of an element of a head in workgroup memory. Lanes read and write 8 adjacent elements each, which would lie in few banks.
fn spread(e: u32) -> u32 {
  return e ^ (e / 32u % 8u);
}

// Rotated and scaled queries: [GROUP, HEAD_DIM], in the order of `spread`.
var<workgroup> queries: array<f32, GROUP * HEAD_DIM>;
// For a query, the sums of each subgroup: [SUBS, HEAD_DIM], in the order of `spread`.
var<workgroup> merged: array<f32, SUBS * HEAD_DIM>;
// Largest score and mass: [SUBS, GROUP].
var<workgroup> stats: array<vec2<f32>, SUBS * GROUP>;
//#if ROPE
// Key and value of the token. They are not read back from the cache, because other workgroups may not have written them yet.
var<workgroup> own_words: array<vec4<u32>, HEAD_DIM / 4u>;
//#endif

fn q_stride() -> u32 {
  return (params.heads + 2u * params.kv_heads) * HEAD_DIM;
}

// Start of a key or value in the cache, in groups of 8 elements.
fn cache_row(slot: u32, position: u32, kv_head: u32) -> u32 {
  let page = page_table[slot * params.max_pages + position / PAGE];
  return ((page * params.kv_heads + kv_head) * PAGE + position % PAGE) * (HEAD_DIM / 8u);
}

//#if ROPE
// 1 / RMS of a head of qkv, summed in the same order as in rms_norm. All lanes of a subgroup have the same `base`.
fn head_scale(base: u32, lane: u32) -> f32 {
  //#if QK_NORM
  var squares = 0.0;
  for (var e = lane; e < min(HEAD_DIM, params.loop_limit); e += LANES) {
    squares = fma(qkv[base + e], qkv[base + e], squares);
  }
  return inverseSqrt(subgroupAdd(squares) / f32(HEAD_DIM) + params.eps);
  //#else
  return 1.0;
  //#endif
}

//#include "lib/rotated_head.wgsl"

// Two elements of the key (of k, from `base`) or, with `is_value`, of the value of the token.
fn own_pair(base: u32, e: u32, position: u32, scale: f32, is_value: bool) -> u32 {
  if (is_value) {
    var pair = vec2(qkv[base + e], qkv[base + e + 1u]);
    //#if QK_NORM
    if (params.v_norm != 0u) {
      pair *= scale * vec2(norm_weight[2u * HEAD_DIM + e], norm_weight[2u * HEAD_DIM + e + 1u]);
    }
    //#endif
    return pack2x16float(pair);
  }
  return pack2x16float(vec2(
    rotated(base, e, position, scale, HEAD_DIM),
    rotated(base, e + 1u, position, scale, HEAD_DIM),
  ));
}

// A subgroup rotates a query, or rotates or copies the key or the value of the token. `is_writer`: also writes them to the cache.
fn prepare(tile: vec4<u32>, kv_head: u32, head0: u32, is_writer: bool, sub: u32, lane: u32) {
  const rows = GROUP + 2u;
  for (var round = 0u; round < (rows + SUBS - 1u) / SUBS; round++) {
    let r = round * SUBS + sub;
    let is_value = r == GROUP + 1u;
    // Without work, a subgroup computes the scale of the first query, because subgroup operations need uniform control flow.
    let head = select(select(head0, head0 + r, r < GROUP), params.heads + kv_head, r == GROUP);
    let base = tile.x * q_stride() + select(head, params.heads + params.kv_heads + kv_head, is_value) * HEAD_DIM;
    let scale = head_scale(base, lane);
    if (r < GROUP) {
      for (var e = lane; e < min(HEAD_DIM, params.loop_limit); e += LANES) {
        queries[r * HEAD_DIM + spread(e)] = rotated(base, e, tile.w, scale, 0u) * params.scale;
      }
    } else if (r < rows) {
      let row = cache_row(tile.z, tile.w, kv_head);
      for (var eight = lane; eight < min(HEAD_DIM / 8u, params.loop_limit); eight += LANES) {
        var words = vec4<u32>();
        for (var w = 0u; w < min(4u, params.loop_limit); w++) {
          words[w] = own_pair(base, eight * 8u + 2u * w, tile.w, scale, is_value);
        }
        own_words[select(0u, HEAD_DIM / 8u, is_value) + eight] = words;
        if (is_writer && is_value) {
          v_cache[row + eight] = words;
        }
        if (is_writer && !is_value) {
          k_cache[row + eight] = words;
        }
      }
    }
  }
}
//#endif

@compute @workgroup_size(THREADS)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
) {
  let lane = local % LANES;
  let sub = local / LANES;
  let part = lane % KEY_LANES;
  let place = lane / KEY_LANES;
  let tile = tiles[group.x];
  let kv_head = group.y / (params.heads / params.kv_heads / GROUP);
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
  first = max(first, max(tile.w + 1u, params.window) - params.window);
  //#endif
  if (first >= end) {
    return;
  }
  //#if ROPE
  let has_own = params.writes != 0u && end == tile.w + 1u;
  // Positions past the end read the row of the last one with weight 0, which would leave a NaN of unwritten memory a NaN.
  let own = select(0xffffffffu, tile.w, has_own);
  let is_first = group.y % (params.heads / params.kv_heads / GROUP) == 0u;
  prepare(tile, kv_head, head0, has_own && is_first, sub, lane);
  //#else
  for (var e = local; e < min(GROUP * HEAD_DIM, 65536u * params.loop_limit); e += THREADS) {
    queries[e / HEAD_DIM * HEAD_DIM + spread(e % HEAD_DIM)] = qkv[tile.x * q_stride() + head0 * HEAD_DIM + e] * params.scale;
  }
  //#endif
  workgroupBarrier();
  var q = array<f32, GROUP * PER>();
  //#unroll
  for (var r = 0u; r < GROUP; r++) {
    //#unroll
    for (var c = 0u; c < CHUNKS; c++) {
      //#unroll
      for (var e = 0u; e < 8u; e++) {
        q[r * PER + c * 8u + e] = queries[r * HEAD_DIM + spread((c * KEY_LANES + part) * 8u + e)];
      }
    }
  }

  var sum = array<f32, GROUP * PER>();
  var largest = array<f32, GROUP>();
  var mass = array<f32, GROUP>();
  //#unroll
  for (var r = 0u; r < GROUP; r++) {
    largest[r] = LOWEST;
  }
  for (var start = first; start < end; start += SUBS * TURNS * PLACES) {
    let base = start + sub * TURNS * PLACES + place;
    var keys = array<vec4<u32>, TURNS * CHUNKS>();
    var values = array<vec4<u32>, TURNS * CHUNKS>();
    //#unroll
    for (var t = 0u; t < TURNS; t++) {
      let position = base + t * PLACES;
      let row = cache_row(tile.z, min(position, end - 1u), kv_head);
      //#unroll
      for (var c = 0u; c < CHUNKS; c++) {
        let at = c * KEY_LANES + part;
        keys[t * CHUNKS + c] = k_cache[row + at];
        values[t * CHUNKS + c] = v_cache[row + at];
        //#if ROPE
        if (position >= own) {
          keys[t * CHUNKS + c] = own_words[at];
          values[t * CHUNKS + c] = own_words[HEAD_DIM / 8u + at];
        }
        //#endif
      }
    }
    // Scores, then weights.
    var weight = array<f32, TURNS * GROUP>();
    //#unroll
    for (var t = 0u; t < TURNS; t++) {
      //#unroll
      for (var c = 0u; c < CHUNKS; c++) {
        //#unroll
        for (var w = 0u; w < 4u; w++) {
          let key = unpack2x16float(keys[t * CHUNKS + c][w]);
          let e = c * 8u + 2u * w;
          //#unroll
          for (var r = 0u; r < GROUP; r++) {
            weight[t * GROUP + r] = fma(q[r * PER + e + 1u], key.y, fma(q[r * PER + e], key.x, weight[t * GROUP + r]));
          }
        }
      }
    }
    for (var other = 1u; other < KEY_LANES; other *= 2u) {
      //#unroll
      for (var i = 0u; i < TURNS * GROUP; i++) {
        weight[i] += subgroupShuffleXor(weight[i], other);
      }
    }
    //#unroll
    for (var r = 0u; r < GROUP; r++) {
      var now = largest[r];
      //#unroll
      for (var t = 0u; t < TURNS; t++) {
        if (base + t * PLACES >= end) {
          weight[t * GROUP + r] = LOWEST;
        }
        now = max(now, weight[t * GROUP + r]);
      }
      let shrink = exp(largest[r] - now);
      largest[r] = now;
      mass[r] *= shrink;
      //#unroll
      for (var e = 0u; e < PER; e++) {
        sum[r * PER + e] *= shrink;
      }
      //#unroll
      for (var t = 0u; t < TURNS; t++) {
        let seen = base + t * PLACES < end;
        weight[t * GROUP + r] = select(0.0, exp(weight[t * GROUP + r] - now), seen);
        mass[r] += weight[t * GROUP + r];
      }
    }
    //#unroll
    for (var t = 0u; t < TURNS; t++) {
      //#unroll
      for (var c = 0u; c < CHUNKS; c++) {
        //#unroll
        for (var w = 0u; w < 4u; w++) {
          let value = unpack2x16float(values[t * CHUNKS + c][w]);
          let e = c * 8u + 2u * w;
          //#unroll
          for (var r = 0u; r < GROUP; r++) {
            sum[r * PER + e] = fma(weight[t * GROUP + r], value.x, sum[r * PER + e]);
            sum[r * PER + e + 1u] = fma(weight[t * GROUP + r], value.y, sum[r * PER + e + 1u]);
          }
        }
      }
    }
  }

  // Merges the lanes of a subgroup that read the same elements of other positions.
  for (var other = KEY_LANES; other < LANES; other *= 2u) {
    //#unroll
    for (var r = 0u; r < GROUP; r++) {
      let now = max(largest[r], subgroupShuffleXor(largest[r], other));
      let kept = exp(largest[r] - now);
      largest[r] = now;
      mass[r] *= kept;
      mass[r] += subgroupShuffleXor(mass[r], other);
      //#unroll
      for (var e = 0u; e < PER; e++) {
        let own_sum = sum[r * PER + e] * kept;
        sum[r * PER + e] = own_sum + subgroupShuffleXor(own_sum, other);
      }
    }
  }
  if (lane == 0u) {
    //#unroll
    for (var r = 0u; r < GROUP; r++) {
      stats[sub * GROUP + r] = vec2(largest[r], mass[r]);
    }
  }
  // Merges the subgroups, one query after the other.
  //#unroll
  for (var r = 0u; r < GROUP; r++) {
    if (place == 0u) {
      //#unroll
      for (var c = 0u; c < CHUNKS; c++) {
        //#unroll
        for (var e = 0u; e < 8u; e++) {
          merged[sub * HEAD_DIM + spread((c * KEY_LANES + part) * 8u + e)] = sum[r * PER + c * 8u + e];
        }
      }
    }
    workgroupBarrier();
    store(tile, head0, split, r, group.x, local);
    workgroupBarrier();
  }
}

fn store(tile: vec4<u32>, head0: u32, split: u32, r: u32, tile_index: u32, local: u32) {
  let head = head0 + r;
  var top = LOWEST;
  //#if SINKS
  top = sinks[head];
  //#endif
  for (var s = 0u; s < min(SUBS, params.loop_limit); s++) {
    top = max(top, stats[s * GROUP + r].x);
  }
  var mass = 0.0;
  //#if SINKS
  mass = exp(sinks[head] - top);
  //#endif
  for (var s = 0u; s < min(SUBS, params.loop_limit); s++) {
    mass = fma(exp(stats[s * GROUP + r].x - top), stats[s * GROUP + r].y, mass);
  }
  //#if SPLIT
  let to = ((tile_index * params.heads + head) * params.max_splits + split) * (HEAD_DIM + 2u);
  if (local == 0u) {
    out[to + HEAD_DIM] = top;
    out[to + HEAD_DIM + 1u] = mass;
  }
  let scale = 1.0;
  //#else
  let to = tile.x * params.out_stride + head * HEAD_DIM;
  let scale = 1.0 / mass;
  //#endif
  for (var e = local; e < min(HEAD_DIM, params.loop_limit); e += THREADS) {
    var total = 0.0;
    for (var s = 0u; s < min(SUBS, params.loop_limit); s++) {
      total = fma(exp(stats[s * GROUP + r].x - top), merged[s * HEAD_DIM + spread(e)], total);
    }
    out[to + e] = total * scale;
  }
}
