// Q5_0, 32 weights per block: 4 words of nibbles (low: columns 0-15, high: 16-31). Separate: three words for two blocks: the
// fifth bits of either (bit 8k + j: column 4j + k), and both f16 scales.
struct Block { a: vec4<u32>, high: u32 }

fn high_bits(index: u32) -> u32 {
  return scales[(index >> 1u) * 3u + (index & 1u)];
}

fn load_block(index: u32) -> Block {
  return Block(quants[index], high_bits(index));
}

fn quad_of(word: u32, high: u32, j: u32) -> vec4<f32> {
  let nibbles = (word >> select(4u, 0u, j < 4u)) & 0x0f0f0f0fu;
  return vec4<f32>(unpack4xU8(nibbles | (((high >> j) & 0x01010101u) << 4u))) - 16.0;
}

// Columns 4j .. 4j+3 of a block, before the scale.
fn block_quad(block: Block, j: u32) -> vec4<f32> {
  return quad_of(block.a[j & 3u], block.high, j);
}

fn block_scale(index: u32) -> f32 {
  return unpack2x16float(scales[(index >> 1u) * 3u + 2u])[index & 1u];
}

// The same four columns, without decoding the rest of the block, after the scale.
fn load_quad(index: u32, j: u32) -> vec4<f32> {
  return quad_of(quants[index][j & 3u], high_bits(index), j) * block_scale(index);
}

const HAS_SCALE = true;
const ONE_RANGE = true; // for all quads of a block
const HAS_OFFSET = true;

//#include "lib/packed_quads.wgsl"
//#include "lib/nibbles.wgsl"

// Codes of columns 4j .. 4j+3 as packed bytes, before the scale and the offset.
fn packed_codes(index: u32, j: u32) -> u32 {
  let high = high_bits(index);
  return nibbles_of(index, j) | (((high >> j) & 0x01010101u) << 4u);
}

// Codes of a block as packed bytes, in the order of columns.
fn packed_block(index: u32) -> array<vec4<u32>, 2> {
  return five_bit_block(index, high_bits(index));
}

// Scale of those codes, and the offset that is added to their products with the scale.
fn quad_range(index: u32, j: u32) -> vec2<f32> {
  return block_scale(index) * vec2(1.0, -16.0);
}
