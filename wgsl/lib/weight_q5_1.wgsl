// Q5_1, 32 weights per block: 4 words of nibbles (low: columns 0-15, high: 16-31). Separate: a word of fifth bits
// (bit 8k + j: column 4j + k) and one of f16 scale and minimum.
struct Block { a: vec4<u32>, high: u32, range: vec2<f32> }

fn load_block(index: u32) -> Block {
  return Block(quants[index], scales[2u * index], unpack2x16float(scales[2u * index + 1u]));
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
  let range = unpack2x16float(scales[2u * index + 1u]);
  return quad_of(quants[index][j & 3u], scales[2u * index], j, range);
}

const HAS_SCALE = true;
const ONE_RANGE = true; // for all quads of a block
const HAS_OFFSET = true;

//#include "lib/packed_quads.wgsl"
//#include "lib/nibbles.wgsl"

// Codes of columns 4j .. 4j+3 as packed bytes, before the scale and the offset.
fn packed_codes(index: u32, j: u32) -> u32 {
  let high = scales[2u * index];
  return nibbles_of(index, j) | (((high >> j) & 0x01010101u) << 4u);
}

// Codes of a block as packed bytes, in the order of columns.
fn packed_block(index: u32) -> array<vec4<u32>, 2> {
  return five_bit_block(index, scales[2u * index]);
}

// Scale of those codes, and the offset that is added to their products with the scale.
fn quad_range(index: u32, j: u32) -> vec2<f32> {
  return unpack2x16float(scales[2u * index + 1u]);
}
