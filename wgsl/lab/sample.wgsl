// One workgroup for each row of logits. Greedy at temperature 0. Otherwise, of the tokens that top-k, top-p and min-p
// keep, the one with the largest logit / temperature + Gumbel noise: this samples from their softmax without summing it.
// The noise depends only on seed, position and token. Ties go to the lowest token.
// Cutoffs are found bit by bit, with one pass over the row for each of the 32 bits of a logit. Sorting is slower.
//#if SUBGROUPS
enable subgroups;
//#endif

override WG: u32 = 64;

struct Params {
  vocabulary: u32,
}

struct Step {
  tokens: u32,
}

// Sampling parameters of one row. Bias and penalties are already applied to the logits.
struct Sample {
  row: u32,
  slot: u32,      // of the sequence
  flags: u32,     // 2: count sampled tokens in `seen`
  seed: u32,
  position: u32,  // of the token to sample
  top_k: u32,     // 0: all
  temperature: f32,
  top_p: f32,
  min_p: f32,
  repetition: f32,
  presence: f32,
  frequency: f32,
}

@group(0) @binding(0) var<storage, read> samples: array<Sample>;
@group(0) @binding(1) var<storage, read> logits: array<f32>;
@group(0) @binding(2) var<storage, read_write> seen: array<u32>;
@group(0) @binding(3) var<storage, read_write> sampled: array<u32>;
@group(0) @binding(4) var<storage, read_write> results: array<u32>;
@group(0) @binding(5) var<uniform> params: Params;
@group(0) @binding(6) var<uniform> step: Step;

const NO_TOKEN = 0xffffffffu; // result for a row of NaN
const LOWEST = -3.4e38;
const HAS_PENALTIES = 2u;

//#include "lab/lib/workgroup_sum.wgsl"

var<workgroup> best_values: array<f32, WG>;
var<workgroup> best_tokens: array<u32, WG>;

// The token with the largest value in the workgroup; ties go to the lowest token.
fn best_of_all(value: f32, token: u32, local: u32) -> u32 {
  //#if SUBGROUPS
  let top = subgroupMax(value);
  best_values[local] = top;
  best_tokens[local] = subgroupMin(select(NO_TOKEN, token, value == top));
  //#else
  best_values[local] = value;
  best_tokens[local] = token;
  //#endif
  workgroupBarrier();
  var best = best_values[0];
  var best_token = best_tokens[0];
  for (var i = 1u; i < min(WG, params.vocabulary); i++) {
    let other = best_values[i];
    if (other > best || (other == best && best_tokens[i] < best_token)) {
      best = other;
      best_token = best_tokens[i];
    }
  }
  workgroupBarrier(); // the next call writes there
  return best_token;
}

//#include "lib/draw.wgsl"

// Number of logits of a row with at least this key; with `by_mass`, the sum of their e^((logit - top) / temperature).
fn weight_from(key: u32, row: u32, top: f32, per_degree: f32, by_mass: bool, local: u32) -> f32 {
  var mine = 0.0;
  for (var v = local; v < params.vocabulary; v += WG) {
    let logit = logits[row + v];
    if (order_key(logit) >= key) {
      mine += select(1.0, exp((logit - top) * per_degree), by_mass);
    }
  }
  return workgroup_sum(mine, local, params.vocabulary);
}

// The largest key, at least `least`, such that the logits with at least this key weigh at least `wanted`.
fn cut_at(wanted: f32, least: u32, row: u32, top: f32, per_degree: f32, by_mass: bool, local: u32) -> u32 {
  var cut = 0u;
  for (var bit = 0x80000000u; bit != 0u; bit >>= 1u) {
    let weight = weight_from(max(cut | bit, least), row, top, per_degree, by_mass, local);
    cut |= select(0u, bit, weight >= wanted);
  }
  return max(cut, least);
}

@compute @workgroup_size(WG)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
) {
  if (group.x >= step.tokens) {
    return;
  }
  let sample = samples[group.x];
  let row = group.x * params.vocabulary;

  var value = LOWEST;
  var token = NO_TOKEN;
  for (var v = local; v < params.vocabulary; v += WG) {
    if (logits[row + v] > value) {
      value = logits[row + v];
      token = v;
    }
  }
  var pick = best_of_all(value, token, local);

  if (sample.temperature > 0.0) {
    let top = logits[row + min(pick, params.vocabulary - 1u)];
    let per_degree = 1.0 / sample.temperature;
    var cut = 0u;
    if (sample.top_k > 0u && sample.top_k < params.vocabulary) {
      cut = cut_at(f32(sample.top_k), 0u, row, top, per_degree, false, local);
    }
    if (sample.top_p < 1.0) {
      let mass = weight_from(cut, row, top, per_degree, true, local);
      cut = cut_at(sample.top_p * mass, cut, row, top, per_degree, true, local);
    }
    let least = select(LOWEST, log(sample.min_p), sample.min_p > 0.0);

    value = LOWEST;
    token = NO_TOKEN;
    for (var v = local; v < params.vocabulary; v += WG) {
      let logit = logits[row + v];
      let scaled = (logit - top) * per_degree;
      // The largest logit is always kept, however the logarithm is rounded.
      if (logit == top || (order_key(logit) >= cut && scaled >= least)) {
        let noisy = scaled + gumbel(sample.seed, sample.position, v);
        if (noisy > value) {
          value = noisy;
          token = v;
        }
      }
    }
    pick = best_of_all(value, token, local);
  }

  if (local == 0u) {
    sampled[sample.slot] = pick;
    results[group.x] = pick;
    if ((sample.flags & HAS_PENALTIES) != 0u && pick != NO_TOKEN) {
      seen[sample.slot * params.vocabulary + pick] += 1u;
    }
  }
}
