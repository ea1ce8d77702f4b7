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
  max_splits: u32,    // 1: never split
  out_stride: u32,    // of out, in elements a token
  scale: f32,
}

@group(0) @binding(0) var<storage, read> qkv: array<f32>;
@group(0) @binding(1) var<storage, read> tiles: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> page_table: array<u32>;
@group(0) @binding(3) var<storage, read> k_cache: array<u32>;
@group(0) @binding(4) var<storage, read> v_cache: array<u32>;
@group(0) @binding(5) var<storage, read_write> partial: array<f32>;
@group(0) @binding(6) var<storage, read_write> out: array<f32>;
@group(0) @binding(7) var<uniform> params: Params;
@group(0) @binding(8) var<uniform> step: Step;

const WG = LANES;
const QROWS = TILE * GROUP;
const PER = HEAD_DIM / LANES;
const_assert HEAD_DIM % (2u * LANES) == 0u;
const LOWEST = -3.0e38;

//#include "lib/step.wgsl"
//#include "lib/reduce.wgsl"

//#if SUBGROUPS
//#else
var<workgroup> shared_probability: array<f32, QROWS * LANES>;
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
    for (var i = 0u; i < PER; i++) {
      for (var w = 0u; w < LANES / 2u; w++) {
        let key = unpack2x16float(k_cache[row + i * (LANES / 2u) + w]);
        for (var r = 0u; r < QROWS; r++) {
          //#if SUBGROUPS
          let even = subgroupShuffle(q[r * PER + i], 2u * w);
          let odd = subgroupShuffle(q[r * PER + i], 2u * w + 1u);
          //#else
          let start = (tile.x + min(r / GROUP, tile.y - 1u)) * q_stride + (head0 + r % GROUP) * HEAD_DIM
            + i * LANES + 2u * w;
          let even = qkv[start] * params.scale;
          let odd = qkv[start + 1u] * params.scale;
          //#endif
          score[r] = fma(odd, key.y, fma(even, key.x, score[r]));
        }
      }
    }
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
    //#if SUBGROUPS
    //#else
    workgroupBarrier();
    for (var r = 0u; r < QROWS; r++) {
      shared_probability[r * LANES + lane] = probability[r];
    }
    workgroupBarrier();
    //#endif
    for (var n = 0u; n < LANES; n++) {
      //#if SUBGROUPS
      let value_row = subgroupShuffle(row, n);
      //#else
      let value_row = cache_row(tile.z, min(base + n, end - 1u), kv_head);
      //#endif
      for (var w = 0u; w < PER / 2u; w++) {
        let value = unpack2x16float(v_cache[value_row + w * LANES + lane]);
        for (var r = 0u; r < QROWS; r++) {
          //#if SUBGROUPS
          let share = subgroupShuffle(probability[r], n);
          //#else
          let share = shared_probability[r * LANES + n];
          //#endif
          sum[r * PER + 2u * w] = fma(share, value.x, sum[r * PER + 2u * w]);
          sum[r * PER + 2u * w + 1u] = fma(share, value.y, sum[r * PER + 2u * w + 1u]);
        }
      }
    }
  }

  for (var r = 0u; r < QROWS; r++) {
    let whole = workgroup_sum(total[r], lane);
    let t = r / GROUP;
    if (t >= tile.y) {
      continue;
    }
    let head = head0 + r % GROUP;
    if (params.max_splits == 1u || step.splits == 1u) {
      let to = (tile.x + t) * params.out_stride + head * HEAD_DIM;
      for (var w = 0u; w < PER / 2u; w++) {
        let at = to + (w * LANES + lane) * 2u;
        out[at] = sum[r * PER + 2u * w] / whole;
        out[at + 1u] = sum[r * PER + 2u * w + 1u] / whole;
      }
    } else {
      // Only tiles of one token are split, so the tile names the row.
      let to = ((group.x * params.heads + head) * params.max_splits + split) * (HEAD_DIM + 2u);
      for (var w = 0u; w < PER / 2u; w++) {
        let at = to + (w * LANES + lane) * 2u;
        partial[at] = sum[r * PER + 2u * w];
        partial[at + 1u] = sum[r * PER + 2u * w + 1u];
      }
      if (lane == 0u) {
        partial[to + HEAD_DIM] = largest[r];
        partial[to + HEAD_DIM + 1u] = whole;
      }
    }
  }
}
