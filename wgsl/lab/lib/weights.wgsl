// Weights as they lie on the GPU: rows of blocks of 32 columns. Four of them as numbers, before the block's scale.
//#if Q8_0
// q8_0: a block is 32 signed bytes in the order of the columns, two vec4<u32>; scales lie apart, two f16 a word.
fn weight_quad(block: u32, quad: u32) -> Quad {
  return Quad(unpack4xI8(quants[block * 2u + quad / 4u][quad % 4u]));
}

fn block_scale(block: u32) -> f32 {
  return unpack2x16float(scales[block / 2u])[block % 2u];
}
//#endif
//#if Q4_0
// q4_0: a block is 16 bytes, one vec4<u32>. The low halves of the bytes are columns 0 to 15, the high halves 16 to 31;
// a half byte h stands for h - 8. Scales lie apart, two f16 a word.
fn weight_quad(block: u32, quad: u32) -> Quad {
  let shift = (quad / 4u) * 4u;
  let halves = (quants[block][quad % 4u] >> shift) & 0x0f0f0f0fu;
  return Quad(vec4<i32>(unpack4xU8(halves)) - 8);
}

fn block_scale(block: u32) -> f32 {
  return unpack2x16float(scales[block / 2u])[block % 2u];
}
//#endif
//#if WEIGHTS_F16
// f16: a block is 32 halves, four vec4<u32>; nothing to scale.
fn weight_quad(block: u32, quad: u32) -> Quad {
  let eight = quants[block * 4u + quad / 2u];
  let first = (quad % 2u) * 2u;
  //#if F16
  return bitcast<vec4<f16>>(vec2(eight[first], eight[first + 1u]));
  //#else
  return vec4(unpack2x16float(eight[first]), unpack2x16float(eight[first + 1u]));
  //#endif
}

fn block_scale(block: u32) -> f32 {
  return 1.0;
}
//#endif
//#if BF16
// bf16: a block is 32 upper halves of f32, four vec4<u32>; nothing to scale.
fn weight_quad(block: u32, quad: u32) -> Quad {
  let eight = quants[block * 4u + quad / 2u];
  let low = eight[(quad % 2u) * 2u];
  let high = eight[(quad % 2u) * 2u + 1u];
  return bitcast<vec4<f32>>(vec4(low << 16u, low & 0xffff0000u, high << 16u, high & 0xffff0000u));
}

fn block_scale(block: u32) -> f32 {
  return 1.0;
}
//#endif
//#if F32
// f32: a block is eight vec4<u32>; nothing to scale.
fn weight_quad(block: u32, quad: u32) -> Quad {
  return bitcast<vec4<f32>>(quants[block * 8u + quad]);
}

fn block_scale(block: u32) -> f32 {
  return 1.0;
}
//#endif
