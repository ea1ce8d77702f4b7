// Causal attention of a tile of tokens of one sequence over a split of its context, for the query heads that share a
// key head: online softmax, one pass over the cache. LANES threads, normally one subgroup.
// Scores: one position per lane. Values: two elements of the head per lane. QROWS = TILE tokens x GROUP heads.
// With ROPE (tiles of one token), this kernel rotates q and writes the key and value of the token to the cache; with
// QK_NORM it first normalizes the heads of q and k, and with params.v_norm those of v. Without params.writes, keys and
// values are those of another layer. Without ROPE, rope_kv_write has done all that.
// With BIDIRECTIONAL, tokens also attend to later tokens: the upper half of tile.y is the length of the sequence, and the
// step contains all of its tokens.
// With WINDOW, a token attends to the last params.window positions, including its own; earlier ones are not read. With
// BIDIRECTIONAL, the window, including the own position, applies in each direction.
// With SINKS, a learned score of each head takes part in the softmax, without a value; if the context is split,
// attention_combine adds it.
// Without BARRIER, the lanes of a subgroup must run in lockstep, as SIMD lanes of a CPU do.
//#if SUBGROUPS
enable subgroups;
//#endif

struct Params {
  heads: u32,
  kv_heads: u32,
  max_pages: u32,     // of a sequence: row length of page_table
  split_tokens: u32,  // positions in a split
  max_splits: u32,
  out_stride: u32,    // of out, elements per token
  scale: f32,
  loop_limit: u32,          // loop limit: larger than QROWS
  rotary: u32,        // ROPE: rotated elements of a head
  eps: f32,           // QK_NORM
  window: u32,        // WINDOW
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

const WG = LANES;
const QROWS = TILE * GROUP;
const PER = HEAD_DIM / LANES;
const_assert HEAD_DIM % (2u * LANES) == 0u;
const LOWEST = -3.0e38;

//#if SUBGROUPS
//#include "lib/reduce.wgsl"
//#else
// For each lane and query, a score, then a probability. A tree for each query would need a dozen barriers.
var<workgroup> shared_row: array<f32, QROWS * LANES>;
//#endif

fn cache_row(slot: u32, position: u32, kv_head: u32) -> u32 {
  let page = page_table[slot * params.max_pages + position / PAGE];
  return ((page * params.kv_heads + kv_head) * PAGE + position % PAGE) * (HEAD_DIM / 2u);
}

// Whether the query at position `place` reads the key at `position`; keys end at `end`.
fn sees(position: u32, place: u32, end: u32) -> bool {
  //#if BIDIRECTIONAL
  //#if WINDOW
  return position < end && position + params.window > place && position < place + params.window;
  //#else
  return position < end;
  //#endif
  //#else
  //#if WINDOW
  return position < end && position <= place && position + params.window > place;
  //#else
  return position < end && position <= place;
  //#endif
  //#endif
}

//#if ROPE
// Rotated and scaled queries. Loop bounds that the compiler does not know prevent unrolling.
var<workgroup> turned: array<f32, QROWS * HEAD_DIM>;

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

fn normalised(base: u32, e: u32, scale: f32, weight_offset: u32) -> f32 {
  //#if QK_NORM
  return qkv[base + e] * scale * norm_weight[weight_offset + e];
  //#else
  return qkv[base + e];
  //#endif
}

// Element e of a head of q or k, rotated as in rope_kv_write.
fn rotated(base: u32, e: u32, position: u32, scale: f32, weight_offset: u32) -> f32 {
  let own = normalised(base, e, scale, weight_offset);
  if (e >= params.rotary) {
    return own;
  }
  let half = params.rotary / 2u;
  //#if NEOX
  let low = e < half;
  let other = select(e - half, e + half, low);
  let turn = table[position * half + min(e, other)];
  //#else
  let low = e % 2u == 0u;
  let other = e ^ 1u;
  let turn = table[position * half + e / 2u];
  //#endif
  let its = normalised(base, other, scale, weight_offset);
  return select(its * turn.y + own * turn.x, own * turn.x - its * turn.y, low);
}
//#endif

@compute @workgroup_size(LANES)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  var tile = tiles[group.x];
  let chunks = params.heads / params.kv_heads / GROUP;
  let kv_head = group.y / chunks;
  let head0 = group.y * GROUP;
  let split = group.z;
  var first = split * params.split_tokens;
  //#if BIDIRECTIONAL
  var end = tile.y >> 16u;
  tile.y &= 0xffffu;
  //#if WINDOW
  end = min(end, tile.w + tile.y + params.window - 1u);
  //#endif
  //#else
  let end = min(first + params.split_tokens, tile.w + tile.y);
  //#endif
  //#if WINDOW
  // Chunks of LANES positions are aligned as without a window, so the sums of a token do not depend on its tile.
  let oldest = max(tile.w + 1u, params.window) - params.window;
  if (oldest >= end) {
    return;
  }
  first += (max(oldest, first) - first) / LANES * LANES;
  //#endif
  if (first >= end) {
    return;
  }
  let q_stride = (params.heads + 2u * params.kv_heads) * HEAD_DIM;
  //#if ROPE
  // The token's position is in this split: write its key and value before they are read. Workgroups that share a key
  // head write the same values.
  let k_start = tile.x * q_stride + (params.heads + kv_head) * HEAD_DIM;
  let v_start = k_start + params.kv_heads * HEAD_DIM;
  let k_scale = head_scale(k_start, lane);
  //#if QK_NORM
  var v_scale = 1.0;
  if (params.v_norm != 0u) {
    v_scale = head_scale(v_start, lane);
  }
  //#endif
  if (params.writes != 0u && end == tile.w + 1u) {
    let own = cache_row(tile.z, tile.w, kv_head);
    for (var eight = lane; eight < min(HEAD_DIM / 8u, params.loop_limit); eight += LANES) {
      var words = vec4<u32>();
      for (var w = 0u; w < min(4u, params.loop_limit); w++) {
        let e = eight * 8u + 2u * w;
        words[w] = pack2x16float(vec2(
          rotated(k_start, e, tile.w, k_scale, HEAD_DIM),
          rotated(k_start, e + 1u, tile.w, k_scale, HEAD_DIM),
        ));
      }
      k_cache[own / 4u + eight] = words;
    }
    for (var w = lane; w < min(HEAD_DIM / 2u, params.loop_limit); w += LANES) {
      var pair = vec2(qkv[v_start + 2u * w], qkv[v_start + 2u * w + 1u]);
      //#if QK_NORM
      if (params.v_norm != 0u) {
        pair *= v_scale * vec2(norm_weight[2u * HEAD_DIM + 2u * w], norm_weight[2u * HEAD_DIM + 2u * w + 1u]);
      }
      //#endif
      v_cache[own + w] = pack2x16float(pair);
    }
  }
  for (var r = 0u; r < min(QROWS, params.loop_limit); r++) {
    let start = tile.x * q_stride + (head0 + r) * HEAD_DIM;
    let q_scale = head_scale(start, lane);
    for (var e = lane; e < min(HEAD_DIM, params.loop_limit); e += LANES) {
      turned[r * HEAD_DIM + e] = rotated(start, e, tile.w, q_scale, 0u) * params.scale;
    }
  }
  //#if BARRIER
  storageBarrier();
  workgroupBarrier();
  //#endif
  //#endif
  //#if SUBGROUPS
  var q = array<f32, QROWS * PER>();
  for (var r = 0u; r < QROWS; r++) {
    let start = (tile.x + min(r / GROUP, tile.y - 1u)) * q_stride + (head0 + r % GROUP) * HEAD_DIM;
    for (var i = 0u; i < PER; i++) {
      //#if ROPE
      q[r * PER + i] = turned[r * HEAD_DIM + i * LANES + lane];
      //#else
      q[r * PER + i] = qkv[start + i * LANES + lane] * params.scale;
      //#endif
    }
  }
  //#endif

  var sum = array<f32, QROWS * PER>();
  var largest = array<f32, QROWS>();
  var total = array<f32, QROWS>();
  for (var r = 0u; r < QROWS; r++) {
    largest[r] = LOWEST;
  }
  for (var base = first; base < end; base += LANES) {
    let position = base + lane;
    let row = cache_row(tile.z, min(position, end - 1u), kv_head);
    var score = array<f32, QROWS>();
    //#if SUBGROUPS
    let width = HEAD_DIM;
    //#else
    // A loop bound that the compiler does not know: compiling the unrolled loop takes a minute on a software adapter.
    let width = min(HEAD_DIM, params.loop_limit);
    //#endif
    for (var d = 0u; d < width; d += 8u) {
      let eight = k_cache[(row + d / 2u) / 4u];
      for (var w = 0u; w < 4u; w++) {
        let key = unpack2x16float(eight[w]);
        let at = d + 2u * w;
        for (var r = 0u; r < QROWS; r++) {
          //#if SUBGROUPS
          let even = subgroupShuffle(q[r * PER + at / LANES], at % LANES);
          let odd = subgroupShuffle(q[r * PER + at / LANES], at % LANES + 1u);
          //#else
          let start = (tile.x + min(r / GROUP, tile.y - 1u)) * q_stride + (head0 + r % GROUP) * HEAD_DIM + at;
          let even = qkv[start] * params.scale;
          let odd = qkv[start + 1u] * params.scale;
          //#endif
          score[r] = fma(odd, key.y, fma(even, key.x, score[r]));
        }
      }
    }
    //#if SUBGROUPS
    var probability = array<f32, QROWS>();
    for (var r = 0u; r < QROWS; r++) {
      let seen = sees(position, tile.w + r / GROUP, end);
      let bounded = select(LOWEST, score[r], seen);
      let now = max(largest[r], workgroup_max(bounded, lane));
      let shrink = exp(largest[r] - now);
      probability[r] = select(0.0, exp(bounded - now), seen);
      total[r] = fma(total[r], shrink, probability[r]);
      largest[r] = now;
      for (var i = 0u; i < PER; i++) {
        sum[r * PER + i] *= shrink;
      }
    }
    let lanes = LANES;
    //#else
    let lanes = min(LANES, params.loop_limit);
    workgroupBarrier();
    for (var r = 0u; r < QROWS; r++) {
      let seen = sees(position, tile.w + r / GROUP, end);
      shared_row[r * LANES + lane] = select(LOWEST, score[r], seen);
    }
    workgroupBarrier();
    var now = largest;
    for (var n = 0u; n < lanes; n++) {
      for (var r = 0u; r < QROWS; r++) {
        now[r] = max(now[r], shared_row[r * LANES + n]);
      }
    }
    workgroupBarrier();
    for (var r = 0u; r < QROWS; r++) {
      let seen = sees(position, tile.w + r / GROUP, end);
      shared_row[r * LANES + lane] = select(0.0, exp(score[r] - now[r]), seen);
      let shrink = exp(largest[r] - now[r]);
      total[r] *= shrink;
      largest[r] = now[r];
      for (var i = 0u; i < PER; i++) {
        sum[r * PER + i] *= shrink;
      }
    }
    workgroupBarrier();
    //#endif
    for (var n = 0u; n < lanes; n++) {
      //#if SUBGROUPS
      let value_row = subgroupShuffle(row, n);
      //#else
      let value_row = cache_row(tile.z, min(base + n, end - 1u), kv_head);
      for (var r = 0u; r < QROWS; r++) {
        total[r] += shared_row[r * LANES + n];
      }
      //#endif
      for (var w = 0u; w < PER / 2u; w++) {
        let value = unpack2x16float(v_cache[value_row + w * LANES + lane]);
        for (var r = 0u; r < QROWS; r++) {
          //#if SUBGROUPS
          let share = subgroupShuffle(probability[r], n);
          //#else
          let share = shared_row[r * LANES + n];
          //#endif
          sum[r * PER + 2u * w] = fma(share, value.x, sum[r * PER + 2u * w]);
          sum[r * PER + 2u * w + 1u] = fma(share, value.y, sum[r * PER + 2u * w + 1u]);
        }
      }
    }
  }

  //#if SUBGROUPS
  for (var r = 0u; r < QROWS; r++) {
    total[r] = workgroup_sum(total[r], lane);
  }
  //#endif
  // Copies, and a loop bound that the compiler does not know: unrolled stores would dominate the compile time.
  var sums = sum;
  var masses = total;
  var tops = largest;
  for (var r = 0u; r < min(QROWS, params.loop_limit); r++) {
    let t = r / GROUP;
    if (t >= tile.y) {
      break;
    }
    let head = head0 + r % GROUP;
    //#if SPLIT
    // Only tiles of one token are split, so the tile determines the row.
    let to = ((group.x * params.heads + head) * params.max_splits + split) * (HEAD_DIM / 2u + 1u);
    let kept = 1.0;
    let scale = 1.0;
    if (lane == 0u) {
      out[to + HEAD_DIM / 2u] = vec2(tops[r], masses[r]);
    }
    //#else
    let to = ((tile.x + t) * params.out_stride + head * HEAD_DIM) / 2u;
    //#if SINKS
    // As in attention_combine.
    let top = max(tops[r], sinks[head]);
    let kept = exp(tops[r] - top);
    let scale = 1.0 / fma(kept, masses[r], exp(sinks[head] - top));
    //#else
    let kept = 1.0;
    let scale = 1.0 / masses[r];
    //#endif
    //#endif
    for (var w = 0u; w < PER / 2u; w++) {
      out[to + w * LANES + lane] = vec2(sums[r * PER + 2u * w], sums[r * PER + 2u * w + 1u]) * kept * scale;
    }
  }
}
