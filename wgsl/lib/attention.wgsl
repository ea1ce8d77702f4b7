// Attention of a workgroup: QROWS = TILE tokens x GROUP query heads that share a key head, over a range of positions; online
// softmax, one pass over the cache. LANES threads, normally one subgroup. Scores: one position per lane. Values: two elements of
// the head per lane.
// The kernel provides the bindings qkv, page_table, k_cache, v_cache and out, with SINKS sinks, params, and
//   sees(position, place, end): whether the query at position `place` reads the key at `position`; keys end at `end`;
//   key_words(row, d, base, lane, range): elements d to d + 7 of the key at base + lane, whose cache row is `row`;
//   value_word(row, w, position, range): elements 2w and 2w + 1 of the value at `position`.
// A tile: first row of qkv, tokens, slot of the sequence, position of the first token.
//#if SUBGROUPS
//#include "lib/reduce.wgsl"
//#endif
const WG = LANES;
const QROWS = TILE * GROUP;
const PER = HEAD_DIM / LANES;
const_assert HEAD_DIM % (2u * LANES) == 0u;
const LOWEST = -3.0e38;

alias Queries = array<f32, QROWS * PER>;

struct Sums {
  sum: array<f32, QROWS * PER>,  // of the values, weighted with e^(score - largest)
  largest: array<f32, QROWS>,    // score
  mass: array<f32, QROWS>,       // sum of e^(score - largest)
}

// Positions that a workgroup attends to: from `first`, a multiple of LANES, to `end`. Key and value of `own` are in registers.
struct Range {
  first: u32,
  end: u32,
  own: u32,
}
const NONE = 0xffffffffu;

//#if SUBGROUPS
//#else
// For each lane and query, a score, then a probability. A tree for each query would need a dozen barriers.
var<workgroup> shared_row: array<f32, QROWS * LANES>;
//#endif

fn q_stride() -> u32 {
  return (params.heads + 2u * params.kv_heads) * HEAD_DIM;
}

// The key head of the workgroups with this number.
fn key_head(group: u32) -> u32 {
  return group / (params.heads / params.kv_heads / GROUP);
}

// Start of query r in qkv.
fn query_start(tile: vec4<u32>, head0: u32, r: u32) -> u32 {
  return (tile.x + min(r / GROUP, tile.y - 1u)) * q_stride() + (head0 + r % GROUP) * HEAD_DIM;
}

// Start of a key or value in the cache, in pairs of elements.
fn cache_row(slot: u32, position: u32, kv_head: u32) -> u32 {
  let page = page_table[slot * params.max_pages + position / PAGE];
  return ((page * params.kv_heads + kv_head) * PAGE + position % PAGE) * (HEAD_DIM / 2u);
}

//#if WINDOW
// The oldest position that the first token of a tile reads.
fn oldest_position(tile: vec4<u32>) -> u32 {
  return max(tile.w + 1u, params.window) - params.window;
}
//#endif

// Scaled queries: element i * LANES + lane of each. Without subgroups, a lane needs all elements and reads them from qkv.
fn load_queries(tile: vec4<u32>, head0: u32, lane: u32) -> Queries {
  var q = Queries();
  //#if SUBGROUPS
  for (var r = 0u; r < QROWS; r++) {
    let start = query_start(tile, head0, r);
    for (var i = 0u; i < PER; i++) {
      q[r * PER + i] = qkv[start + i * LANES + lane] * params.scale;
    }
  }
  //#endif
  return q;
}

fn attend(queries: Queries, tile: vec4<u32>, kv_head: u32, head0: u32, range: Range, lane: u32) -> Sums {
  let end = range.end;
  //#if SUBGROUPS
  var q = queries;
  //#endif
  var sum = array<f32, QROWS * PER>();
  var largest = array<f32, QROWS>();
  var total = array<f32, QROWS>();
  for (var r = 0u; r < QROWS; r++) {
    largest[r] = LOWEST;
  }
  for (var base = range.first; base < end; base += LANES) {
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
      let eight = key_words(row, d, base, lane, range);
      for (var w = 0u; w < 4u; w++) {
        let key = unpack2x16float(eight[w]);
        let at = d + 2u * w;
        for (var r = 0u; r < QROWS; r++) {
          //#if SUBGROUPS
          let even = subgroupShuffle(q[r * PER + at / LANES], at % LANES);
          let odd = subgroupShuffle(q[r * PER + at / LANES], at % LANES + 1u);
          //#else
          let start = query_start(tile, head0, r) + at;
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
        let value = unpack2x16float(value_word(value_row, w * LANES + lane, base + n, range));
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
  return Sums(sum, largest, total);
}

// Writes the context of a tile that has attended to all of its positions.
fn store_context(sums: Sums, tile: vec4<u32>, head0: u32, lane: u32) {
  // A copy, and a loop bound that the compiler does not know: unrolled stores would dominate the compile time.
  var rows = sums;
  for (var r = 0u; r < min(QROWS, params.loop_limit); r++) {
    let t = r / GROUP;
    if (t >= tile.y) {
      break;
    }
    let head = head0 + r % GROUP;
    //#if SINKS
    // As in attention_combine.
    let top = max(rows.largest[r], sinks[head]);
    let kept = exp(rows.largest[r] - top);
    let scale = 1.0 / fma(kept, rows.mass[r], exp(sinks[head] - top));
    //#else
    let kept = 1.0;
    let scale = 1.0 / rows.mass[r];
    //#endif
    let to = ((tile.x + t) * params.out_stride + head * HEAD_DIM) / 2u;
    for (var w = 0u; w < PER / 2u; w++) {
      out[to + w * LANES + lane] = vec2(rows.sum[r * PER + 2u * w], rows.sum[r * PER + 2u * w + 1u]) * kept * scale;
    }
  }
}
