// IQ4_NL, 32 weights per block: 4 words of nibbles (low: columns 0-15, high: 16-31), indices in a table; separate scales, two f16
// in each word.
struct Block { a: vec4<u32> }

//#include "lib/iq4_quad.wgsl"

fn load_block(index: u32) -> Block {
  return Block(quants[index]);
}

// Columns 4j .. 4j+3 of a block, before the scale.
fn block_quad(block: Block, j: u32) -> vec4<f32> {
  return quad_of(block.a[j & 3u], j);
}

fn block_scale(index: u32) -> f32 {
  return unpack2x16float(scales[index >> 1u])[index & 1u];
}

// The same four columns, without decoding the rest of the block, after the scale.
fn load_quad(index: u32, j: u32) -> vec4<f32> {
  return quad_of(quants[index][j & 3u], j) * block_scale(index);
}

const HAS_SCALE = true;
const ONE_RANGE = true; // for all quads of a block
const HAS_OFFSET = false;

// The same four columns, before the scale and the offset.
fn quad_codes(index: u32, j: u32) -> vec4<f32> {
  return quad_of(quants[index][j & 3u], j);
}

// Scale of those codes, and the offset that is added to their products with the scale.
fn quad_range(index: u32, j: u32) -> vec2<f32> {
  return vec2(block_scale(index), 0.0);
}
