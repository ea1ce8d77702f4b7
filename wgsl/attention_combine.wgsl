// Combines the splits of `attention`: out[t, h] = sum_s e^(m_s - m) acc_s / sum_s e^(m_s - m) l_s. One thread per element.
// With SINKS, a learned score of each head is added to the denominator; it has no value.

struct Params {
  heads: u32,
  head_dim: u32,
  max_splits: u32,
  out_stride: u32,
  window: u32,        // positions that a token attends to; 0: all
}

@group(0) @binding(0) var<storage, read> partial: array<f32>;
@group(0) @binding(1) var<storage, read> tiles: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;
@group(0) @binding(3) var<uniform> params: Params;
@group(0) @binding(4) var<uniform> step: Step;
//#if SINKS
@group(0) @binding(5) var<storage, read> sinks: array<f32>; // [heads]
//#endif

//#include "lib/step.wgsl"

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) global: vec3<u32>) {
  let element = global.x;
  if (element >= params.heads * params.head_dim || global.y >= step.tiles) {
    return;
  }
  let tile = tiles[global.y]; // of one token
  let head = element / params.head_dim;
  let d = element % params.head_dim;
  let words = params.head_dim + 2u;
  let start = (global.y * params.heads + head) * params.max_splits * words;
  // The other splits contain no visible positions of this token, and were not written.
  let split_tokens = tile.y >> 16u;
  let splits = tile.w / split_tokens + 1u;
  let seen = select(params.window, tile.w + 1u, params.window == 0u || params.window > tile.w);
  let first = (tile.w + 1u - seen) / split_tokens;
  //#if SINKS
  var largest = sinks[head];
  //#else
  var largest = -3.0e38;
  //#endif
  for (var s = first; s < splits; s++) {
    largest = max(largest, partial[start + s * words + params.head_dim]);
  }
  var sum = 0.0;
  //#if SINKS
  var total = exp(sinks[head] - largest);
  //#else
  var total = 0.0;
  //#endif
  for (var s = first; s < splits; s++) {
    let at = start + s * words;
    let weight = exp(partial[at + params.head_dim] - largest);
    sum = fma(weight, partial[at + d], sum);
    total = fma(weight, partial[at + params.head_dim + 1u], total);
  }
  // The same division as in `attention` without splits, so that a single split gives the same bits.
  out[tile.x * params.out_stride + element] = sum * (1.0 / total);
}
