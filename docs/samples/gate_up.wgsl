//! op: norm_gated_matvec
//! dispatch: ceil(rows / WG)
//! tune WG = 8, 16, 32
//! requires: subgroups
//! dtypes: q8_0
//! bind: layers.*.ffn.norm_gate_up_act
// y = silu(Wgate n) * (Wup n) with n = rms_norm(x), one token.
//
// An invocation computes a row of gate and the same row of up, so that no sum crosses invocations and no barrier is
// needed. Eight lanes fetch the activations of a block together, a quad each, and pass them around by shuffles: on a
// software adapter a load costs the same whether the lanes' addresses differ or not. Needs subgroups of 8 or more.
enable subgroups;

override WG: u32 = 16;

struct Params {
  rows: u32,
  blocks: u32, // columns / 32
  x_stride: u32,
  y_stride: u32,
  y_offset: u32,
  has_bias: u32, // never: this op has none
  eps: f32,
}

@group(0) @binding(0) var<storage, read> quants: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> scales: array<u32>;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;
@group(0) @binding(4) var<uniform> params: Params;
@group(0) @binding(7) var<storage, read> norm_weight: array<vec4<f32>>;

fn block_scale(block: u32) -> f32 {
  return unpack2x16float(scales[block / 2u])[block % 2u];
}

fn weights(word: u32) -> vec4<f32> {
  return vec4<f32>(unpack4xI8(word));
}

fn silu(gate: f32) -> f32 {
  return gate / (1.0 + exp(min(-gate, 80.0)));
}

@compute @workgroup_size(WG)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
  @builtin(subgroup_invocation_id) lane: u32,
) {
  let row = group.x * WG + local;
  // Lanes past the last row still have activations to fetch: they compute the last row again and do not write it.
  let gate = min(row, params.rows - 1u) * params.blocks;
  let up = gate + params.rows * params.blocks;
  var sum = vec2<f32>();
  var squares = 0.0;
  for (var b = 0u; b < params.blocks; b++) {
    let at = b * 8u + lane % 8u;
    let fetched = x[at];
    squares += dot(fetched, fetched);
    let mine = fetched * norm_weight[at];
    let gate_low = quants[(gate + b) * 2u];
    let gate_high = quants[(gate + b) * 2u + 1u];
    let up_low = quants[(up + b) * 2u];
    let up_high = quants[(up + b) * 2u + 1u];
    var part = vec2<f32>();
    for (var j = 0u; j < 4u; j++) {
      let low = subgroupShuffle(mine, j);
      let high = subgroupShuffle(mine, j + 4u);
      part.x += dot(weights(gate_low[j]), low) + dot(weights(gate_high[j]), high);
      part.y += dot(weights(up_low[j]), low) + dot(weights(up_high[j]), high);
    }
    sum = fma(part, vec2(block_scale(gate + b), block_scale(up + b)), sum);
  }
  // The norm's factor is the same for every column, so it may come last.
  squares = subgroupAdd(select(0.0, squares, lane < 8u));
  sum *= inverseSqrt(squares / f32(params.blocks * 32u) + params.eps);
  if (row < params.rows) {
    y[params.y_offset + row] = silu(sum.x) * sum.y;
  }
}
