// raw[s, v]: filtered logits, for samples that request log probabilities after sampling: the scaled distance from the
// largest logit if the sampling rules keep v, else the smallest f32. At temperature 0 only the sampled token is kept.
// Cutoffs as in sample_pick. One workgroup for each row.

struct Params {
  vocabulary: u32,
  // Always 2 and 4, as in sample_pick.
  rules: u32,
  levels: u32,
}

@group(0) @binding(0) var<storage, read> samples: array<Sample>;
@group(0) @binding(1) var<storage, read> logits: array<f32>;
@group(0) @binding(2) var<storage, read> results: array<u32>;
@group(0) @binding(3) var<storage, read_write> raw: array<f32>;
@group(0) @binding(4) var<uniform> params: Params;

// Smaller than every logit.
const LEAST = -0x1.fffffep+127;

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
  if ((sample.flags & IS_AFTER_SAMPLING) == 0u) {
    return;
  }
  let row = group.x * params.vocabulary;
  let drawn = results[group.x];

  var value = -3.4e38;
  var token = NONE;
  for (var v = local; v < params.vocabulary; v += WG) {
    let logit = logits[row + v];
    if (logit > value) {
      value = logit;
      token = v;
    }
  }
  let best = reduce_best(local, value, token);

  if (sample.temperature > 0.0 && best != NONE) {
    let top = logits[row + best];
    let cut = cut_of(sample, row, local, top);
    let per_degree = 1.0 / sample.temperature;
    let floor_value = select(-3.4e38, log(sample.min_p), sample.min_p > 0.0);
    for (var v = local; v < params.vocabulary; v += WG) {
      let logit = logits[row + v];
      let scaled = (logit - top) * per_degree;
      let is_kept = logit == top || (order_key(logit) >= cut && scaled >= floor_value);
      raw[row + v] = select(LEAST, max(scaled, LEAST), is_kept);
    }
  } else {
    for (var v = local; v < params.vocabulary; v += WG) {
      raw[row + v] = select(LEAST, 0.0, v == drawn);
    }
  }
}
