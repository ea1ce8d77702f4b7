// Products of weights and activations, four columns (a quad) at once. A block of 32 weights is eight quads with one scale.
// This kernel multiplies every quad by the scale of its block. Next optimizations to try: sum a block before multiplying
// by the scale, and compute two or more rows in each invocation.
//#if F16
enable f16;
//#endif
//#if SUBGROUPS
enable subgroups;
//#endif
//#if SUBGROUPS

// A workgroup computes ROWS rows of one token, one after the other. Its WG invocations process interleaved quads of a row
// and combine their sums at the end: adjacent invocations read adjacent quads, so that loads are coalesced.
override WG: u32 = 32;
override ROWS: u32 = 4;
//#else
//#if F16

// A workgroup computes ROWS rows of one token, one row in each invocation. Activations are shared through workgroup memory
// as f16. The largest f16 is 65504, which activations can exceed. So the 32 activations of a block are divided by the
// largest of them, and their sum is multiplied by it.
//#if HALF_WEIGHTS
// Four products are added in f16, everything else in f32. The rounding gives an NMSE below 2e-6; the limit is 5e-4.
//#else
// Weights of this format can exceed the range of f16, so products are in f32 and only activations are rounded. This
// gives an NMSE below 2e-6; the limit is 5e-4.
//#endif
//#else

// A workgroup computes ROWS rows of one token, one row in each invocation, which loops over all columns of its row.
//#endif
override ROWS: u32 = 64;
//#endif

struct Params {
  rows: u32,      // elements of y for each token
  blocks: u32,    // columns / 32
  x_stride: u32,  // elements from token to token; a multiple of 4
  y_stride: u32,
  y_offset: u32,  // offset of the rows in y
  has_bias: u32,  // 1: add the bias
  eps: f32,       // of the norm
//#if GATED
  activation: u32, // 0: silu, 1: GELU (tanh approximation)
//#else
  scale: f32,     // factor of the results, including the bias
//#endif
}

struct Step {
  tokens: u32,
}

@group(0) @binding(0) var<storage, read> quants: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> scales: array<u32>;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;
@group(0) @binding(4) var<uniform> params: Params;
@group(0) @binding(5) var<uniform> step: Step;
@group(0) @binding(6) var<storage, read> bias: array<f32>;
//#if NORM
@group(0) @binding(7) var<storage, read> norm_weight: array<vec4<f32>>;
//#endif

//#if HALF_WEIGHTS
alias Quad = vec4<f16>;
//#else
alias Quad = vec4<f32>;
//#endif

//#include "lab/lib/weights.wgsl"

//#if SUBGROUPS
//#include "lab/lib/workgroup_sum.wgsl"

//#endif
// Four activations of a token, starting at column 4 * quad.
fn input_quad(token: u32, quad: u32) -> vec4<f32> {
  //#if NORM
  return x[token * (params.x_stride / 4u) + quad] * norm_weight[quad];
  //#else
  return x[token * (params.x_stride / 4u) + quad];
  //#endif
}

//#if NORM
// Sum of squares of the activations of a token that one of `count` invocations processes.
fn squares_of(token: u32, local: u32, count: u32) -> f32 {
  var squares = 0.0;
  for (var quad = local; quad < params.blocks * 8u; quad += count) {
    let four = x[token * (params.x_stride / 4u) + quad];
    squares += dot(four, four);
  }
  return squares;
}

//#endif
//#if GATED
//#include "lab/lib/activate.wgsl"

//#endif
fn write_result(token: u32, row: u32, sum: f32) {
  let at = token * params.y_stride + params.y_offset + row;
  //#if GATED
  y[at] = sum;
  //#else
  var value = sum;
  if (params.has_bias != 0u) {
    value += bias[row];
  }
  value *= params.scale;
  //#if ADD
  y[at] += value;
  //#else
  y[at] = value;
  //#endif
  //#endif
}

//#if SUBGROUPS
// The part of a row's sum that one invocation computes.
fn part_of_row(row: u32, token: u32, local: u32) -> f32 {
  var sum = 0.0;
  for (var quad = local; quad < params.blocks * 8u; quad += WG) {
    let block = row * params.blocks + quad / 8u;
    sum = fma(dot(weight_quad(block, quad % 8u), input_quad(token, quad)), block_scale(block), sum);
  }
  return sum;
}

@compute @workgroup_size(WG)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
) {
  let token = group.y;
  if (token >= step.tokens) {
    return;
  }
  //#if NORM
  let mean = workgroup_sum(squares_of(token, local, WG), local, params.blocks * 8u) / f32(params.blocks * 32u);
  let inverse_rms = inverseSqrt(mean + params.eps);
  //#endif
  for (var r = 0u; r < ROWS; r++) {
    let row = group.x * ROWS + r;
    if (row >= params.rows) {
      break;
    }
    var sum = workgroup_sum(part_of_row(row, token, local), local, params.blocks * 8u);
    //#if NORM
    sum *= inverse_rms;
    //#endif
    //#if GATED
    var up_sum = workgroup_sum(part_of_row(params.rows + row, token, local), local, params.blocks * 8u);
    //#if NORM
    up_sum *= inverse_rms;
    //#endif
    sum = activate(sum) * up_sum;
    //#endif
    if (local == 0u) {
      write_result(token, row, sum);
    }
  }
}
//#else
//#if F16
// Activations of ROWS blocks, each block divided by its largest magnitude.
var<workgroup> halves: array<vec4<f16>, ROWS * 8u>;
var<workgroup> units: array<f32, ROWS>;

// Loads one block of a token to workgroup memory.
fn stage(token: u32, b: u32, slot: u32) {
  let first = b * 8u;
  var greatest = vec4<f32>();
  for (var quad = first; quad < first + 8u; quad++) {
    greatest = max(greatest, abs(input_quad(token, quad)));
  }
  let most = max(max(greatest.x, greatest.y), max(greatest.z, greatest.w));
  let unit = select(1.0, most, most > 0.0);
  for (var quad = first; quad < first + 8u; quad++) {
    halves[slot * 8u + quad - first] = vec4<f16>(input_quad(token, quad) / unit);
  }
  units[slot] = unit;
}

// Contribution of the staged blocks, starting at `base`, to a row's sum.
fn staged_sum(row: u32, base: u32, count: u32) -> f32 {
  var sum = 0.0;
  for (var quad = 0u; quad < count * 8u; quad++) {
    let slot = quad / 8u;
    let block = row * params.blocks + base + slot;
    //#if HALF_WEIGHTS
    let four = f32(dot(weight_quad(block, quad % 8u), halves[quad]));
    //#else
    let four = dot(weight_quad(block, quad % 8u), vec4<f32>(halves[quad]));
    //#endif
    sum = fma(four * units[slot], block_scale(block), sum);
  }
  return sum;
}

//#else
fn row_sum(row: u32, token: u32) -> f32 {
  var sum = 0.0;
  for (var quad = 0u; quad < params.blocks * 8u; quad++) {
    let block = row * params.blocks + quad / 8u;
    sum = fma(dot(weight_quad(block, quad % 8u), input_quad(token, quad)), block_scale(block), sum);
  }
  return sum;
}

//#endif
//#if NORM
var<workgroup> square_parts: array<f32, ROWS>;

//#endif
@compute @workgroup_size(ROWS)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
) {
  let token = group.y;
  if (token >= step.tokens) {
    return;
  }
  //#if NORM
  square_parts[local] = squares_of(token, local, ROWS);
  workgroupBarrier();
  var squares = 0.0;
  for (var i = 0u; i < min(ROWS, params.blocks * 8u); i++) {
    squares += square_parts[i];
  }
  let inverse_rms = inverseSqrt(squares / f32(params.blocks * 32u) + params.eps);
  //#endif
  let row = group.x * ROWS + local;
  //#if F16
  // Invocations after the last row do not return, because they help to load.
  let inside = row < params.rows;
  var sum = 0.0;
  //#if GATED
  var up_sum = 0.0;
  //#endif
  for (var base = 0u; base < params.blocks; base += ROWS) {
    let count = min(ROWS, params.blocks - base);
    workgroupBarrier();
    if (local < count) {
      stage(token, base + local, local);
    }
    workgroupBarrier();
    if (inside) {
      sum += staged_sum(row, base, count);
      //#if GATED
      up_sum += staged_sum(params.rows + row, base, count);
      //#endif
    }
  }
  if (!inside) {
    return;
  }
  //#else
  if (row >= params.rows) {
    return;
  }
  var sum = row_sum(row, token);
  //#if GATED
  var up_sum = row_sum(params.rows + row, token);
  //#endif
  //#endif
  //#if NORM
  sum *= inverse_rms;
  //#if GATED
  up_sum *= inverse_rms;
  //#endif
  //#endif
  //#if GATED
  sum = activate(sum) * up_sum;
  //#endif
  write_result(token, row, sum);
}
//#endif
