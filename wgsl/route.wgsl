// The `used` experts of each token with the largest logits, in descending order with ties by the lowest index, and their
// shares: exp(logit) relative to the sum over all experts, or over the selected ones. One workgroup for each token. NaN is
// selected last and makes all shares NaN, so that the result shows damaged weights. The rank of an expert is the number of
// experts before it, so each rank is assigned once for all logits.
struct Params {
  experts: u32, // at most MOST
  used: u32,    // at most MOST_USED
  of_all: u32,  // shares are relative to the sum over all experts
  scale: f32,   // of the shares
}

// [token, expert], as bits: compilers can assume that f32 comparisons have no NaN.
@group(0) @binding(0) var<storage, read> logits: array<u32>;
// [token, used] of (expert, share)
@group(0) @binding(1) var<storage, read_write> routes: array<u32>;
@group(0) @binding(2) var<uniform> params: Params;

var<workgroup> keys: array<u32, MOST>;
var<workgroup> chosen: array<f32, MOST_USED>;

// Sort key: larger for larger numbers, equal for both zeros.
fn key_of(bits: u32) -> u32 {
  let size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) {
    return 0u;
  }
  return select(0x80000000u | size, 0x80000000u - size, bits > 0x80000000u);
}

@compute @workgroup_size(WG)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
) {
  let first = group.x * params.experts;
  for (var e = local; e < params.experts; e += WG) {
    keys[e] = key_of(logits[first + e]);
  }
  workgroupBarrier();
  for (var e = local; e < params.experts; e += WG) {
    let mine = keys[e];
    var place = 0u;
    for (var other = 0u; other < params.experts; other++) {
      // Equal logits count if their index is lower.
      place += select(0u, 1u, keys[other] > mine || (keys[other] == mine && other < e));
    }
    if (place < params.used) {
      routes[2u * (group.x * params.used + place)] = e;
      chosen[place] = bitcast<f32>(logits[first + e]);
    }
  }
  workgroupBarrier();
  if (local < params.used) {
    let best = chosen[0];
    var sum = 0.0;
    var numbers = true;
    for (var e = 0u; e < params.experts; e++) {
      numbers = numbers && keys[e] != 0u;
    }
    if (params.of_all != 0u) {
      for (var e = 0u; e < params.experts; e++) {
        sum += exp(bitcast<f32>(logits[first + e]) - best);
      }
    } else {
      for (var place = 0u; place < params.used; place++) {
        sum += exp(chosen[place] - best);
      }
    }
    let share = exp(chosen[local] - best) / sum * params.scale;
    routes[2u * (group.x * params.used + local) + 1u] = select(0x7fc00000u, bitcast<u32>(share), numbers);
  }
}
