// The `used` experts of each token with the largest logits, the best first and of equals the one of the lowest number, and
// their shares: exp(logit) of the sum over all experts, or over those chosen. A token a workgroup; what is not a number
// is chosen last, and then no share is a number: what the token becomes must show that a weight is damaged. An expert's
// place is the number of those before it, so each place is taken once, whatever the logits.
struct Params {
  experts: u32, // at most MOST
  used: u32,    // at most MOST_USED
  of_all: u32,  // shares are of the sum over all
  scale: f32,   // of the shares
}

// [token, expert], as bits: comparisons of f32 may take it for granted that there is no NaN.
@group(0) @binding(0) var<storage, read> logits: array<u32>;
// [token, used] of (expert, share)
@group(0) @binding(1) var<storage, read_write> routes: array<u32>;
@group(0) @binding(2) var<uniform> params: Params;

var<workgroup> keys: array<u32, MOST>;
var<workgroup> chosen: array<f32, MOST_USED>;

// Larger for larger numbers; both zeros are alike.
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
      // Equals count when they come before it.
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
