// Weights in their GPU layout: rows of blocks of 32 columns. Decodes four weights, before the scale of the block.
//#if Q8_0
// q8_0: a block is 32 signed bytes in column order, two vec4<u32>; scales are separate, two f16 in each word.
fn weight_quad(block: u32, quad: u32) -> Quad {
  return Quad(unpack4xI8(quants[block * 2u + quad / 4u][quad % 4u]));
}

fn block_scale(block: u32) -> f32 {
  return unpack2x16float(scales[block / 2u])[block % 2u];
}
//#endif
//#if Q4_0
// q4_0: a block is 16 bytes, one vec4<u32>. The low nibbles are columns 0 to 15, the high nibbles 16 to 31; the value of a
// nibble h is h - 8. Scales are separate, two f16 in each word.
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
// f16: a block is 32 f16, four vec4<u32>; no scale.
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
// bf16: a block is 32 upper halves of f32, four vec4<u32>; no scale.
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
// f32: a block is eight vec4<u32>; no scale.
fn weight_quad(block: u32, quad: u32) -> Quad {
  return bitcast<vec4<f32>>(quants[block * 8u + quad]);
}

fn block_scale(block: u32) -> f32 {
  return 1.0;
}
//#endif
//#if Q4_1
// q4_1: a block is 16 bytes, one vec4<u32>. The low nibbles are columns 0 to 15, the high nibbles 16 to 31. A separate
// word for each block contains the f16 scale and the minimum, which is added; so this returns the complete weight.
fn weight_quad(block: u32, quad: u32) -> Quad {
  let halves = (quants[block][quad % 4u] >> ((quad / 4u) * 4u)) & 0x0f0f0f0fu;
  let range = unpack2x16float(scales[block]);
  return Quad(unpack4xU8(halves)) * range.x + range.y;
}

fn block_scale(block: u32) -> f32 {
  return 1.0;
}
//#endif
//#if Q5_0
// q5_0: a block is 16 bytes, one vec4<u32>. The low nibbles are columns 0 to 15, the high nibbles 16 to 31; the value of a
// code c, with its fifth bit, is c - 16. Three separate words for two blocks: the fifth bits of each block, where bit
// 8 k + j belongs to column 4 j + k, and both f16 scales.
fn weight_quad(block: u32, quad: u32) -> Quad {
  let halves = (quants[block][quad % 4u] >> ((quad / 4u) * 4u)) & 0x0f0f0f0fu;
  let fifth = (scales[(block / 2u) * 3u + block % 2u] >> quad) & 0x01010101u;
  return Quad(vec4<i32>(unpack4xU8(halves | (fifth << 4u))) - 16);
}

fn block_scale(block: u32) -> f32 {
  return unpack2x16float(scales[(block / 2u) * 3u + 2u])[block % 2u];
}
//#endif
//#if Q5_1
// q5_1: a block is 16 bytes, one vec4<u32>. The low nibbles are columns 0 to 15, the high nibbles 16 to 31. Two separate
// words for each block: the fifth bits, where bit 8 k + j belongs to column 4 j + k; f16 scale and minimum, which is
// added, so this returns the complete weight.
fn weight_quad(block: u32, quad: u32) -> Quad {
  let halves = (quants[block][quad % 4u] >> ((quad / 4u) * 4u)) & 0x0f0f0f0fu;
  let fifth = (scales[block * 2u] >> quad) & 0x01010101u;
  let range = unpack2x16float(scales[block * 2u + 1u]);
  return Quad(unpack4xU8(halves | (fifth << 4u))) * range.x + range.y;
}

fn block_scale(block: u32) -> f32 {
  return 1.0;
}
//#endif
//#if Q2_K
// q2_k: a block is 8 bytes, half a vec4<u32>: two bits for each column, 16 columns in a word, column 4 j + k at bit
// 8 k + 2 j. Five separate words for eight blocks: f16 scale and minimum, then a byte for every 16 columns; its low nibble
// multiplies the scale, its high nibble the minimum, which is subtracted; so this returns the complete weight.
fn weight_quad(block: u32, quad: u32) -> Quad {
  let codes = (quants[block / 2u][(block % 2u) * 2u + quad / 4u] >> ((quad % 4u) * 2u)) & 0x03030303u;
  let group = (block / 8u) * 5u;
  let pair = unpack4xU8(scales[group + 1u + (block % 8u) / 2u])[(block % 2u) * 2u + quad / 4u];
  let range = unpack2x16float(scales[group]);
  return Quad(unpack4xU8(codes)) * (range.x * f32(pair & 15u)) - range.y * f32(pair >> 4u);
}

fn block_scale(block: u32) -> f32 {
  return 1.0;
}
//#endif
//#if Q3_K
// q3_k: a block is 8 bytes, half a vec4<u32>: two bits for each column, 16 columns in a word, column 4 j + k at bit
// 8 k + 2 j; the value of a code c, with its third bit, is c - 4. 13 separate words for eight blocks: an f16 scale, a
// signed byte for every 16 columns that multiplies it, a word of third bits for each block (bit 8 k + j: column 4 j + k).
fn weight_quad(block: u32, quad: u32) -> Quad {
  let low = (quants[block / 2u][(block % 2u) * 2u + quad / 4u] >> ((quad % 4u) * 2u)) & 0x03030303u;
  let group = (block / 8u) * 13u;
  let third = (scales[group + 5u + block % 8u] >> quad) & 0x01010101u;
  let factor = unpack4xI8(scales[group + 1u + (block % 8u) / 2u])[(block % 2u) * 2u + quad / 4u];
  let scale = unpack2x16float(scales[group]).x * f32(factor);
  return Quad(vec4<i32>(unpack4xU8(low | (third << 2u))) - 4) * scale;
}

fn block_scale(block: u32) -> f32 {
  return 1.0;
}
//#endif
//#if Q4_K
// q4_k: a block is 16 bytes, one vec4<u32>. The low nibbles are columns 0 to 15, the high nibbles 16 to 31. Five separate
// words for eight blocks: f16 scale and minimum, then two bytes for each block that multiply them. The minimum is
// subtracted, so this returns the complete weight.
fn weight_quad(block: u32, quad: u32) -> Quad {
  let halves = (quants[block][quad % 4u] >> ((quad / 4u) * 4u)) & 0x0f0f0f0fu;
  let group = (block / 8u) * 5u;
  let factors = vec4<f32>(unpack4xU8(scales[group + 1u + (block % 8u) / 2u]));
  let range = unpack2x16float(scales[group]) * select(factors.xy, factors.zw, block % 2u == 1u);
  return Quad(unpack4xU8(halves)) * range.x - range.y;
}

fn block_scale(block: u32) -> f32 {
  return 1.0;
}
//#endif
//#if Q5_K
// q5_k: a block is 16 bytes, one vec4<u32>. The low nibbles are columns 0 to 15, the high nibbles 16 to 31. 13 separate
// words for eight blocks: f16 scale and minimum, two bytes for each block that multiply them, a word of fifth bits for each
// block (bit 8 k + j: column 4 j + k). The minimum is subtracted, so this returns the complete weight.
fn weight_quad(block: u32, quad: u32) -> Quad {
  let halves = (quants[block][quad % 4u] >> ((quad / 4u) * 4u)) & 0x0f0f0f0fu;
  let group = (block / 8u) * 13u;
  let fifth = (scales[group + 5u + block % 8u] >> quad) & 0x01010101u;
  let factors = vec4<f32>(unpack4xU8(scales[group + 1u + (block % 8u) / 2u]));
  let range = unpack2x16float(scales[group]) * select(factors.xy, factors.zw, block % 2u == 1u);
  return Quad(unpack4xU8(halves | (fifth << 4u))) * range.x - range.y;
}

fn block_scale(block: u32) -> f32 {
  return 1.0;
}
//#endif
//#if Q6_K
// q6_k: a block is 16 bytes, one vec4<u32>. The low nibbles are columns 0 to 15, the high nibbles 16 to 31; the value of a
// code c, with its two upper bits, is c - 32. 21 separate words for eight blocks: an f16 scale, a signed byte for every 16
// columns that multiplies it, two words of upper bits for each block, with column 4 j + k at bit 8 k + 2 j.
fn weight_quad(block: u32, quad: u32) -> Quad {
  let halves = (quants[block][quad % 4u] >> ((quad / 4u) * 4u)) & 0x0f0f0f0fu;
  let group = (block / 8u) * 21u;
  let upper = (scales[group + 5u + (block % 8u) * 2u + quad / 4u] >> ((quad % 4u) * 2u)) & 0x03030303u;
  let factor = unpack4xI8(scales[group + 1u + (block % 8u) / 2u])[(block % 2u) * 2u + quad / 4u];
  let scale = unpack2x16float(scales[group]).x * f32(factor);
  return Quad(vec4<i32>(unpack4xU8(halves | (upper << 4u))) - 32) * scale;
}

fn block_scale(block: u32) -> f32 {
  return 1.0;
}
//#endif
//#if IQ4_NL
// iq4_nl: a block is 16 bytes, one vec4<u32>. The low nibbles are columns 0 to 15, the high nibbles 16 to 31; a nibble is an
// index in -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113. Scales are separate, two f16 in each
// word.
fn iq4_number(h: u32) -> f32 {
  let first = select(0xbfad9881u, 0xf6eaddcfu, (h & 4u) != 0u);
  let second = select(0x26190d01u, 0x71594535u, (h & 4u) != 0u);
  return f32(unpack4xI8(select(first, second, (h & 8u) != 0u))[h & 3u]);
}

fn weight_quad(block: u32, quad: u32) -> Quad {
  let halves = unpack4xU8((quants[block][quad % 4u] >> ((quad / 4u) * 4u)) & 0x0f0f0f0fu);
  let numbers = vec4(iq4_number(halves.x), iq4_number(halves.y), iq4_number(halves.z), iq4_number(halves.w));
  return Quad(numbers);
}

fn block_scale(block: u32) -> f32 {
  return unpack2x16float(scales[block / 2u])[block % 2u];
}
//#endif
//#if IQ4_XS
// iq4_xs: a block is 16 bytes, one vec4<u32>. The low nibbles are columns 0 to 15, the high nibbles 16 to 31; a nibble is an
// index in -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113. Three separate words for eight
// blocks: an f16 scale, then a signed byte for each block that multiplies it.
fn iq4_number(h: u32) -> f32 {
  let first = select(0xbfad9881u, 0xf6eaddcfu, (h & 4u) != 0u);
  let second = select(0x26190d01u, 0x71594535u, (h & 4u) != 0u);
  return f32(unpack4xI8(select(first, second, (h & 8u) != 0u))[h & 3u]);
}

fn weight_quad(block: u32, quad: u32) -> Quad {
  let halves = unpack4xU8((quants[block][quad % 4u] >> ((quad / 4u) * 4u)) & 0x0f0f0f0fu);
  let numbers = vec4(iq4_number(halves.x), iq4_number(halves.y), iq4_number(halves.z), iq4_number(halves.w));
  return Quad(numbers);
}

fn block_scale(block: u32) -> f32 {
  let group = (block / 8u) * 3u;
  let factor = unpack4xI8(scales[group + 1u + (block % 8u) / 4u])[block % 4u];
  return unpack2x16float(scales[group]).x * f32(factor);
}
//#endif
//#if MXFP4
// mxfp4: a block is 16 bytes, one vec4<u32>. The low nibbles are columns 0 to 15, the high nibbles 16 to 31; a nibble has a
// sign (the highest bit), two exponent bits and one fraction bit: 0, 1/2, 1, 3/2, 2, 3, 4, 6, returned doubled. Scales are
// separate, a byte e for each block with the scale 2^(e - 127), returned halved.
fn weight_quad(block: u32, quad: u32) -> Quad {
  let halves = unpack4xU8((quants[block][quad % 4u] >> ((quad / 4u) * 4u)) & 0x0f0f0f0fu);
  let doubled = vec4<f32>((vec4(0xc8643210u) >> ((halves & vec4(7u)) * 4u)) & vec4(15u));
  return Quad(select(doubled, -doubled, halves >= vec4(8u)));
}

fn block_scale(block: u32) -> f32 {
  let e = unpack4xU8(scales[block / 4u])[block % 4u];
  return bitcast<f32>(select((e - 1u) << 23u, 0x00200000u << e, e <= 1u));
}
//#endif
//#if MLC_Q4F32
// mlc_q4f32: a block is 16 bytes, one vec4<u32>. The low nibbles are columns 0 to 15, the high nibbles 16 to 31; the value
// of a nibble h is h - 7. Scales are separate, one f32 for each block.
fn weight_quad(block: u32, quad: u32) -> Quad {
  let halves = (quants[block][quad % 4u] >> ((quad / 4u) * 4u)) & 0x0f0f0f0fu;
  return Quad(vec4<i32>(unpack4xU8(halves)) - 7);
}

fn block_scale(block: u32) -> f32 {
  return bitcast<f32>(scales[block]);
}
//#endif
//#if MLC_Q3F16
// mlc_q3f16: a block is 8 bytes, half a vec4<u32>: two bits for each column, 16 columns in a word, column 4 j + k at bit
// 8 k + 2 j; the value of a code c, with its third bit, is c - 3. Seven separate words for five blocks of a row: four f16
// scales of 40 columns each; a word of third bits for each block, where bit 8 k + j belongs to column 4 j + k.
fn weight_quad(block: u32, quad: u32) -> Quad {
  let low = (quants[block / 2u][(block % 2u) * 2u + quad / 4u] >> ((quad % 4u) * 2u)) & 0x03030303u;
  let row = block / params.blocks;
  let b = block % params.blocks;
  let group = (row * ((params.blocks + 4u) / 5u) + b / 5u) * 7u;
  let third = (scales[group + 2u + b % 5u] >> quad) & 0x01010101u;
  let forty = ((b % 5u) * 8u + quad) / 10u;
  let scale = unpack2x16float(scales[group + forty / 2u])[forty % 2u];
  return Quad(vec4<i32>(unpack4xU8(low | (third << 2u))) - 3) * scale;
}

fn block_scale(block: u32) -> f32 {
  return 1.0;
}
//#endif
