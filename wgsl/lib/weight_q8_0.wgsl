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
const HAS_OFFSET = false;

// The same four columns, before the scale and the offset.
fn quad_codes(index: u32, j: u32) -> vec4<f32> {
  return vec4<f32>(unpack4xI8(load_bytes(index, j)));
}

fn packed_codes(index: u32, j: u32) -> u32 {
  return load_bytes(index, j);
}

// Codes of a block as packed bytes, in the order of columns.
fn packed_block(index: u32) -> array<vec4<u32>, 2> {
  return array(quants[index * 2u], quants[index * 2u + 1u]);
}

// Scale of those codes, and the offset that is added to their products with the scale.
fn quad_range(index: u32, j: u32) -> vec2<f32> {
  return vec2(block_scale(index), 0.0);
}
