// Samples one token from each row of logits: greedy at temperature 0, else temperature, top-k, top-p, min-p and Gumbel-max
// (the token with the largest logit / temperature + noise is a sample from the softmax). One workgroup for each row.
// The noise depends only on (seed, position, token), so a sample does not depend on the other rows of the step.
// Cutoffs are found by radix selection on the bits of the logits, not by sorting; probability masses are summed in fixed
// point, so that sums do not depend on the order. Equal logits at a cutoff are all kept.

struct Params {
  vocabulary: u32,
  // Always 2 and 4. The compiler does not know the values, so it does not unroll the loops, which would take seconds.
  rules: u32,
  levels: u32,
}

@group(0) @binding(0) var<storage, read> samples: array<Sample>;
@group(0) @binding(1) var<storage, read> logits: array<f32>;
@group(0) @binding(2) var<storage, read_write> seen: array<u32>;
@group(0) @binding(3) var<storage, read_write> sampled: array<u32>;
@group(0) @binding(4) var<storage, read_write> results: array<u32>;
@group(0) @binding(5) var<uniform> params: Params;

//#include "lib/sample_record.wgsl"
//#include "lib/draw.wgsl"
//#include "lib/best_token.wgsl"
//#include "lib/sample_cut.wgsl"

@compute @workgroup_size(WG)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
) {
  let sample = samples[group.x];
  let row = group.x * params.vocabulary;

  var value = -3.4e38;
  var token = NONE;
  // Eight loads are in flight together. Of equal logits, the first is kept.
  for (var first = local; first < params.vocabulary; first += 8u * WG) {
    //#unroll
    for (var n = 0u; n < 8u; n++) {
      let v = first + n * WG;
      let logit = logits[row + min(v, params.vocabulary - 1u)];
      if (logit > value && v < params.vocabulary) {
        value = logit;
        token = v;
      }
    }
  }
  var pick = reduce_best(local, value, token);

  if (sample.temperature > 0.0 && pick != NONE) {
    let top = logits[row + pick];
    let per_degree = 1.0 / sample.temperature;
    let cut = cut_of(sample, row, local, top);

    // The largest logit is always kept, however log is rounded.
    let floor_value = select(-3.4e38, log(sample.min_p), sample.min_p > 0.0);
    value = -3.4e38;
    token = NONE;
    for (var v = local; v < params.vocabulary; v += WG) {
      let logit = logits[row + v];
      let scaled = (logit - top) * per_degree;
      if (logit == top || (order_key(logit) >= cut && scaled >= floor_value)) {
        let noisy = scaled + gumbel(sample.seed, sample.position, v);
        if (noisy > value) {
          value = noisy;
          token = v;
        }
      }
    }
    workgroupBarrier();
    pick = reduce_best(local, value, token);
  }

  if (local == 0u) {
    sampled[sample.slot] = pick;
    results[group.x] = pick;
    if ((sample.flags & HAS_PENALTIES) != 0u && pick != NONE) {
      seen[sample.slot * params.vocabulary + pick] += 1u;
    }
  }
}
