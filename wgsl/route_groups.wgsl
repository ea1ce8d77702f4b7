// Sorts the (token, expert) pairs of a range of rows by expert, then by pair, and groups them into tiles of up to TILE pairs of one expert.
// One workgroup for each expert; it counts the pairs of lower experts itself, so workgroups do not depend on each other.
// If the pairs of an expert begin at s of the range, its tiles begin at s / TILE + expert; tiles in between are empty (no pairs).
struct Params {
  experts: u32,
  used: u32,
  max_direct_tokens: u32, // steps with at most this many tokens need no groups
  order_at: u32, // word of routes: pairs,
  tiles_at: u32, // and tiles of (expert, index of the first pair, pairs, 0)
  range: u32,    // of rows: 0 for all, DECODE or PROMPT
}

const DECODE = 1u;
const PROMPT = 2u;

@group(0) @binding(0) var<storage, read_write> routes: array<u32>;
@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<uniform> step: Step;

//#include "lib/step.wgsl"

// For the pairs of each thread: the number of pairs of lower experts, and of this one.
var<workgroup> lower: array<u32, WG>;
var<workgroup> equal: array<u32, WG>;

@compute @workgroup_size(WG)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
) {
  let expert = group.x;
  let first_pair = select(0u, step.decode_rows, params.range == PROMPT) * params.used;
  let end_pair = select(step.tokens, step.decode_rows, params.range == DECODE) * params.used;
  let share = (end_pair - first_pair + WG - 1u) / WG;
  let begin = min(end_pair, first_pair + local * share);
  let end = min(end_pair, begin + share);
  var counts = vec2(0u);
  for (var pair = begin; pair < end; pair++) {
    let one = routes[2u * pair];
    counts += vec2(select(0u, 1u, one < expert), select(0u, 1u, one == expert));
  }
  lower[local] = counts.x;
  equal[local] = counts.y;
  workgroupBarrier();
  var first = 0u;
  var before = 0u;
  var total = 0u;
  for (var n = 0u; n < WG; n++) {
    first += lower[n];
    before += select(0u, equal[n], n < local);
    total += equal[n];
  }
  var at = params.order_at + first_pair + first + before;
  for (var pair = begin; pair < end; pair++) {
    if (routes[2u * pair] == expert) {
      routes[at] = pair;
      at++;
    }
  }
  let slot = first / TILE + expert;
  let slots = (first + total) / TILE + expert + 1u - slot;
  for (var n = local; n < slots; n += WG) {
    let done = min(total, n * TILE);
    let to = params.tiles_at + 4u * (slot + n);
    routes[to] = expert;
    routes[to + 1u] = first_pair + first + done;
    routes[to + 2u] = min(TILE, total - done);
    routes[to + 3u] = 0u;
  }
}
