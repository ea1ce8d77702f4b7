// logits[s, v]: adds the request's bias, then repetition, presence and frequency penalties. A logit a thread.
// seen[slot, v]: bit 31 is set when v stands in the prompt; below it, how often v stands in the answer.

struct Params {
  vocabulary: u32,
}

@group(0) @binding(0) var<storage, read> samples: array<Sample>;
@group(0) @binding(1) var<storage, read> bias: array<f32>;
@group(0) @binding(2) var<storage, read> seen: array<u32>;
@group(0) @binding(3) var<storage, read_write> logits: array<f32>;
@group(0) @binding(4) var<uniform> params: Params;
@group(0) @binding(5) var<uniform> step: Step;

//#include "lib/step.wgsl"
//#include "lib/sample_record.wgsl"

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) global: vec3<u32>) {
  let v = global.x;
  let s = global.y;
  if (v >= params.vocabulary || s >= step.samples) {
    return;
  }
  let sample = samples[s];
  let at = s * params.vocabulary + v;
  let of_slot = sample.slot * params.vocabulary + v;
  var logit = logits[at];
  if ((sample.flags & HAS_BIAS) != 0u) {
    logit += bias[of_slot];
  }
  if ((sample.flags & HAS_PENALTIES) != 0u) {
    let mark = seen[of_slot];
    if (mark != 0u) {
      logit = select(logit * sample.repetition, logit / sample.repetition, logit > 0.0);
    }
    let count = mark & 0x7fffffffu;
    if (count != 0u) {
      logit -= sample.presence + sample.frequency * f32(count);
    }
  }
  logits[at] = logit;
}
