// Bindings of all matmul kernels, and the processing of their sums. A GPU skips code whose flag is not set. A software
// adapter runs it masked, which is slow for single tokens: with FIXED, the flags are the constant FLAGS, and a pipeline
// supports only those flags.
struct Params {
  rows: u32,        // of this part of W
  blocks: u32,      // K / 32
  out_stride: u32,  // of y, in elements
  out_offset: u32,
  flags: u32,
  bias_offset: u32, // in vectors
  norm_weight_offset: u32,
  half: u32,        // GATED: rows of gate
  parts: u32,       // partial sums of squares of each token
  width: f32,       // number of squared elements
  eps: f32,
  loop_limit: u32,  // loop limit: larger than the results of a thread
  scale: f32,       // of the results
}

const BIAS = 1u;
const ADD = 2u;       // adds to y
const SAMPLED = 4u;   // rows of x and y are samples
// x is not normalized yet: the sum of squares[t, parts] is its sum of squares, and results are divided by its RMS.
const NORM_IN = 8u;
// Also writes the input of the next norm: scaled = y * norm_weight, and partial sums of squares of y.
const NORM_OUT = 16u;
// W contains the rows of gate, then those of up: y[t, n] = silu(gate) * up. Rows are processed in pairs.
const GATED = 32u;
const GELU_TANH = 64u; // with GATED: GELU (tanh approximation) instead of silu

@group(0) @binding(0) var<storage, read> quants: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> scales: array<u32>;
@group(0) @binding(2) var<storage, read> vectors: array<f32>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;
@group(0) @binding(5) var<uniform> params: Params;
@group(0) @binding(6) var<uniform> step: Step;
@group(0) @binding(7) var<storage, read_write> squares: array<f32>;
@group(0) @binding(8) var<storage, read_write> scaled: array<f32>;

//#include "lib/gelu_tanh.wgsl"

fn has(flag: u32) -> bool {
  //#if FIXED
  return (FLAGS & flag) != 0u;
  //#else
  return (params.flags & flag) != 0u;
  //#endif
}

fn matmul_tokens() -> u32 {
  return select(step.tokens, step.samples, has(SAMPLED));
}

// End of the rows of a kernel for rows that are decoded; they begin at 0.
fn decode_end() -> u32 {
  return select(step.decode_rows, step.samples, has(SAMPLED));
}

// First row of a kernel for rows of prompts; they end at matmul_tokens().
fn prompt_begin() -> u32 {
  return select(step.decode_rows, 0u, has(SAMPLED));
}

// 1 if rows of W are processed in pairs, else 0.
fn pairing() -> u32 {
  return select(0u, 1u, has(GATED));
}

// Rows of y.
fn out_rows() -> u32 {
  return select(params.rows, params.half, has(GATED));
}

// The r-th row of W of a thread or workgroup whose rows of y begin at `first` with the given stride; clamped to W.
fn row_of(first: u32, r: u32, stride: u32) -> u32 {
  let pair = pairing();
  return min(first + (r >> pair) * stride, out_rows() - 1u) + (r & pair) * params.half;
}

fn activate(gate: f32) -> f32 {
  var curve = gate;
  if (has(GELU_TANH)) {
    curve = gelu_tanh_exponent(gate);
  }
  return gate / (1.0 + exp(-curve));
}

// Returns the new value of y.
fn write_result(token: u32, row: u32, result: f32) -> f32 {
  let at = token * params.out_stride + params.out_offset + row;
  var value = result;
  if (has(BIAS)) {
    value += vectors[params.bias_offset + row];
  }
  value *= params.scale;
  if (has(ADD)) {
    value += y[at];
  }
  y[at] = value;
  if (has(NORM_OUT)) {
    scaled[at] = value * vectors[params.norm_weight_offset + row];
  }
  return value;
}

fn inverse_rms(sum_of_squares: f32) -> f32 {
  return inverseSqrt(sum_of_squares / params.width + params.eps);
}
