// Causal convolution of each channel over the tokens of one sequence in the step. One thread for each channel:
//   conv(u)[t] = bias + sum over j of weight[KERNEL - 1 - j] * u[t - j]
// With GATED, y = C * conv(B * x), where mixed contains B, C and x of `channels` each; without, the first `channels` of
// mixed become silu(conv(mixed)), in place. The state contains the last KERNEL - 1 inputs: [slots, KERNEL - 1, channels].

struct Params {
  channels: u32,
  stride: u32,      // of mixed, from token to token
  out_stride: u32,
  biased: u32,
}

@group(0) @binding(0) var<storage, read> vectors: array<f32>;  // weight [channels, KERNEL], then bias [channels]
@group(0) @binding(1) var<storage, read> spans: array<vec4<u32>>;  // first row, rows, slot, position of the first
@group(0) @binding(2) var<storage, read_write> state: array<f32>;
//#if GATED
@group(0) @binding(3) var<storage, read> mixed: array<f32>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;
//#else
@group(0) @binding(3) var<storage, read_write> mixed: array<f32>;
//#endif
@group(0) @binding(5) var<uniform> params: Params;

const KEPT = KERNEL - 1u;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) global: vec3<u32>) {
  let channel = global.x;
  if (channel >= params.channels) {
    return;
  }
  let span = spans[global.y];
  let kept = span.z * KEPT * params.channels + channel;
  var taps = array<f32, KERNEL>();
  for (var j = 0u; j < KERNEL; j++) {
    taps[j] = vectors[channel * KERNEL + j];
  }
  var bias = 0.0;
  if (params.biased > 0u) {
    bias = vectors[params.channels * KERNEL + channel];
  }
  // Oldest first.
  var past = array<f32, KEPT>();
  if (span.w > 0u) {
    for (var j = 0u; j < KEPT; j++) {
      past[j] = state[kept + j * params.channels];
    }
  }
  for (var t = 0u; t < span.y; t++) {
    let at = (span.x + t) * params.stride + channel;
    //#if GATED
    let now = mixed[at] * mixed[at + 2u * params.channels];
    //#else
    let now = mixed[at];
    //#endif
    var sum = fma(now, taps[KEPT], bias);
    for (var j = 0u; j < KEPT; j++) {
      sum = fma(past[j], taps[j], sum);
    }
    for (var j = 0u; j + 1u < KEPT; j++) {
      past[j] = past[j + 1u];
    }
    past[KEPT - 1u] = now;
    //#if GATED
    y[(span.x + t) * params.out_stride + channel] = mixed[at + params.channels] * sum;
    //#else
    mixed[at] = sum / (1.0 + exp(-sum));
    //#endif
  }
  for (var j = 0u; j < KEPT; j++) {
    state[kept + j * params.channels] = past[j];
  }
}
