// logits[s, v]: adds the request's bias, then repetition, presence and frequency penalties. One thread for each logit.
// seen[slot, v]: bit 31 is set if v occurs in the prompt; the lower bits count v in the output.
// masks[slot, v / 32]: bit v % 32 is set if v is allowed; the other tokens get a logit that is never sampled.

struct Params {
  vocabulary: u32,
}

@group(0) @binding(0) var<storage, read> samples: array<Sample>;
@group(0) @binding(1) var<storage, read> bias: array<f32>;
@group(0) @binding(2) var<storage, read> seen: array<u32>;
@group(0) @binding(3) var<storage, read_write> logits: array<f32>;
@group(0) @binding(4) var<uniform> params: Params;
@group(0) @binding(5) var<uniform> step: Step;
@group(0) @binding(6) var<storage, read> masks: array<u32>;

// The smallest f32: with infinities, the sampler would compute NaN.
const FORBIDDEN = -0x1.fffffep+127;

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
  if ((sample.flags & HAS_MASK) != 0u) {
    let word = masks[sample.slot * ((params.vocabulary + 31u) / 32u) + v / 32u];
    if (((word >> (v % 32u)) & 1u) == 0u) {
      logit = FORBIDDEN;
    }
  }
  logits[at] = logit;
}
