// What every matmul kernel is bound to.
struct Params {
  rows: u32,        // of this part of W
  blocks: u32,      // K / 32
  out_stride: u32,  // of y, in elements
  out_offset: u32,
  flags: u32,       // 1: add bias, 2: add to what y holds, 4: rows are samples
  bias_offset: u32,
  many: u32,        // always more than the results of a thread
}

fn matmul_tokens() -> u32 {
  return select(step.tokens, step.samples, (params.flags & 4u) != 0u);
}

fn write_result(token: u32, row: u32, result: f32) {
  let at = token * params.out_stride + params.out_offset + row;
  var value = result;
  if ((params.flags & 1u) != 0u) {
    value += bias[params.bias_offset + row];
  }
  if ((params.flags & 2u) != 0u) {
    value += y[at];
  }
  y[at] = value;
}
