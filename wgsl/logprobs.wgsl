// Natural log probabilities from a row of the model's logits: of the token that was sampled after it, or that is already
// known, and of the top tokens in descending order; ties by the lowest token. One workgroup for each row.
// logprobs[s]: log probability of the token, number of top tokens, and for each its id and log probability.

struct Params {
  vocabulary: u32,
}

@group(0) @binding(0) var<storage, read> samples: array<Sample>;
@group(0) @binding(1) var<storage, read> logits: array<f32>;
@group(0) @binding(2) var<storage, read> results: array<u32>;
@group(0) @binding(3) var<storage, read_write> logprobs: array<u32>;
@group(0) @binding(4) var<uniform> params: Params;

const MOST_LIKELY = 20u;
const WORDS = 2u + 2u * MOST_LIKELY;
// Smaller than every logit.
const LEAST = -0x1.fffffep+127;

//#include "lib/sample_record.wgsl"
//#include "lib/best_token.wgsl"

@compute @workgroup_size(WG)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
) {
  let sample = samples[group.x];
  if ((sample.flags & HAS_LOGPROBS) == 0u) {
    return;
  }
  let row = group.x * params.vocabulary;
  let at = group.x * WORDS;
  let wanted = min((sample.flags >> LIKELIEST_SHIFT) & 0xffu, MOST_LIKELY);

  // Each thread keeps the best of its tokens that was not output yet.
  var value = LEAST;
  var token = NONE;
  for (var v = local; v < params.vocabulary; v += WG) {
    let logit = logits[row + v];
    if (logit > value) {
      value = logit;
      token = v;
    }
  }
  var best = reduce_best(local, value, token);
  // If all logits are NaN, all results are NaN too.
  let top = logits[row + select(best, 0u, best == NONE)];
  var mine = 0.0;
  for (var v = local; v < params.vocabulary; v += WG) {
    mine += exp(logits[row + v] - top);
  }
  // Separate from the largest logit, which would reduce the precision.
  let log_sum = log(sum_all(local, mine));

  if (local == 0u) {
    let next = select(results[group.x], sample.seed, (sample.flags & IS_SCORED) != 0u);
    let its = logits[row + min(next, params.vocabulary - 1u)];
    logprobs[at] = bitcast<u32>((its - top) - log_sum);
  }
  var found = 0u;
  while (found < wanted && best != NONE) {
    let logit = logits[row + best];
    if (local == 0u) {
      logprobs[at + 2u + 2u * found] = best;
      logprobs[at + 3u + 2u * found] = bitcast<u32>((logit - top) - log_sum);
    }
    found++;
    if (token == best) {
      value = LEAST;
      token = NONE;
      for (var v = local; v < params.vocabulary; v += WG) {
        let other = logits[row + v];
        let is_left = other < logit || (other == logit && v > best);
        if (is_left && other > value) {
          value = other;
          token = v;
        }
      }
    }
    workgroupBarrier();
    best = reduce_best(local, value, token);
  }
  if (local == 0u) {
    logprobs[at + 1u] = found;
  }
}
