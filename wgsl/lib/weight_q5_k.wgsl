// Q5_K, 32 weights per block: 4 words of nibbles (low: columns 0-15, high: 16-31). Separate: 13 words for eight blocks: f16
// scale and minimum; two bytes for each block that multiply them; a word for each block of fifth bits (bit 8k + j: column
// 4j + k).
struct Block { a: vec4<u32>, high: u32, range: vec2<f32> }

// Factor of a block's codes, and the term that is added.
fn range_of(index: u32) -> vec2<f32> {
  let at = (index >> 3u) * 13u;
  let pair = scales[at + 1u + ((index & 7u) >> 1u)] >> ((index & 1u) * 16u);
  return unpack2x16float(scales[at]) * vec2(f32(pair & 0xffu), -f32((pair >> 8u) & 0xffu));
}

fn high_bits(index: u32) -> u32 {
  return scales[(index >> 3u) * 13u + 5u + (index & 7u)];
}

fn load_block(index: u32) -> Block {
  return Block(quants[index], high_bits(index), range_of(index));
}

fn quad_of(word: u32, high: u32, j: u32, range: vec2<f32>) -> vec4<f32> {
  let nibbles = (word >> select(4u, 0u, j < 4u)) & 0x0f0f0f0fu;
  let codes = nibbles | (((high >> j) & 0x01010101u) << 4u);
  return fma(vec4<f32>(unpack4xU8(codes)), vec4(range.x), vec4(range.y));
}

// Columns 4j .. 4j+3 of a block; with the minimum applied, no scale remains.
fn block_quad(block: Block, j: u32) -> vec4<f32> {
  return quad_of(block.a[j & 3u], block.high, j, block.range);
}

fn block_scale(index: u32) -> f32 {
  return 1.0;
}

// The same four columns, without decoding the rest of the block.
fn load_quad(index: u32, j: u32) -> vec4<f32> {
  return quad_of(quants[index][j & 3u], high_bits(index), j, range_of(index));
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
  return range_of(index);
}
