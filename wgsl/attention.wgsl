// Causal attention of a tile of tokens of one sequence over a split of its context, for the query heads that
// share a key head: online softmax, one pass over the cache. LANES threads, normally one subgroup.
// Scores: a position a lane. Values: two elements of the head a lane. QROWS = TILE tokens x GROUP heads.
//#if SUBGROUPS
enable subgroups;
//#endif

struct Params {
  heads: u32,
  kv_heads: u32,
  max_pages: u32,     // of a sequence: row length of page_table
  split_tokens: u32,  // positions a split
  max_splits: u32,
  out_stride: u32,    // of out, in elements a token
  scale: f32,
  many: u32,          // always more than QROWS
}

@group(0) @binding(0) var<storage, read> qkv: array<f32>;
@group(0) @binding(1) var<storage, read> tiles: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> page_table: array<u32>;
@group(0) @binding(3) var<storage, read> k_cache: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> v_cache: array<u32>;
// [tokens, out_stride], or with SPLIT [tiles, heads, max_splits, HEAD_DIM + 2]: sums, then greatest score and mass.
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
// A score, then a probability, a lane of every query. A tree for each query would take a dozen barriers apiece.
var<workgroup> shared_row: array<f32, QROWS * LANES>;
//#endif

fn cache_row(slot: u32, position: u32, kv_head: u32) -> u32 {
  let page = page_table[slot * params.max_pages + position / PAGE];
  return ((page * params.kv_heads + kv_head) * PAGE + position % PAGE) * (HEAD_DIM / 2u);
}

@compute @workgroup_size(LANES)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let tile = tiles[group.x];
  let chunks = params.heads / params.kv_heads / GROUP;
  let kv_head = group.y / chunks;
  let head0 = group.y * GROUP;
  let split = group.z;
  let first = split * params.split_tokens;
  let end = min(first + params.split_tokens, tile.w + tile.y);
  if (first >= end) {
    return;
  }
  let q_stride = (params.heads + 2u * params.kv_heads) * HEAD_DIM;
  //#if SUBGROUPS
  var q = array<f32, QROWS * PER>();
  for (var r = 0u; r < QROWS; r++) {
    let start = (tile.x + min(r / GROUP, tile.y - 1u)) * q_stride + (head0 + r % GROUP) * HEAD_DIM;
    for (var i = 0u; i < PER; i++) {
      q[r * PER + i] = qkv[start + i * LANES + lane] * params.scale;
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
    // A bound the compiler does not know: it would write the loop out, and a software adapter needs a minute for that.
    let width = min(HEAD_DIM, params.many);
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
      let seen = position < end && position <= tile.w + r / GROUP;
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
    let lanes = min(LANES, params.many);
    workgroupBarrier();
    for (var r = 0u; r < QROWS; r++) {
      let seen = position < end && position <= tile.w + r / GROUP;
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
      let seen = position < end && position <= tile.w + r / GROUP;
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
  // Copies, and a bound the compiler does not know: written out, these stores take it longer than all the rest.
  var sums = sum;
  var masses = total;
  var tops = largest;
  for (var r = 0u; r < min(QROWS, params.many); r++) {
    let t = r / GROUP;
    if (t >= tile.y) {
      break;
    }
    let head = head0 + r % GROUP;
    //#if SPLIT
    // Only tiles of one token are split, so the tile names the row.
    let to = ((group.x * params.heads + head) * params.max_splits + split) * (HEAD_DIM / 2u + 1u);
    let scale = 1.0;
    if (lane == 0u) {
      out[to + HEAD_DIM / 2u] = vec2(tops[r], masses[r]);
    }
    //#else
    let to = ((tile.x + t) * params.out_stride + head * HEAD_DIM) / 2u;
    let scale = 1.0 / masses[r];
    //#endif
    for (var w = 0u; w < PER / 2u; w++) {
      out[to + w * LANES + lane] = vec2(sums[r * PER + 2u * w], sums[r * PER + 2u * w + 1u]) * scale;
    }
  }
}
