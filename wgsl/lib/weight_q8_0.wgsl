// Q8_0, 32 weights per block: 8 words of int8 in column order; separate scales, two f16 in each word.
struct Block { a: vec4<u32>, b: vec4<u32> }

fn load_block(index: u32) -> Block {
  let at = index * 2u;
  return Block(quants[at], quants[at + 1u]);
}

// Columns 4j .. 4j+3 of a block, before the scale.
fn block_quad(block: Block, j: u32) -> vec4<f32> {
  return vec4<f32>(unpack4xI8(select(block.b, block.a, j < 4u)[j & 3u]));
}

fn block_scale(index: u32) -> f32 {
  return unpack2x16float(scales[index >> 1u])[index & 1u];
}

// The same four columns, without decoding the rest of the block, after the scale.
fn load_quad(index: u32, j: u32) -> vec4<f32> {
  return vec4<f32>(unpack4xI8(quants[index * 2u + (j >> 2u)][j & 3u])) * block_scale(index);
}

// The same four columns as packed bytes, before the scale.
fn load_bytes(index: u32, j: u32) -> u32 {
  return quants[index * 2u + (j >> 2u)][j & 3u];
}

const HAS_SCALE = true;
const ONE_RANGE = true; // for all quads of a block
const HAS_OFFSET = true;

// The same four columns, before the scale and the offset.
fn quad_codes(index: u32, j: u32) -> vec4<f32> {
  // 1 + (code + 128) / 256, see lib/mantissa_codes.wgsl
  let codes = quants[index * 2u + (j >> 2u)][j & 3u] ^ 0x80808080u;
  let aligned = vec4(codes << 15u, codes << 7u, codes >> 1u, codes >> 9u);
  return bitcast<vec4<f32>>((aligned & vec4(0x007f8000u)) | vec4(0x3f800000u));
}

// Scale of those codes, and the offset that is added to their products with the scale.
fn quad_range(index: u32, j: u32) -> vec2<f32> {
  return block_scale(index) * vec2(256.0, -384.0);
}
