// Q6_K, 32 weights per block: 4 words of nibbles (low: columns 0-15, high: 16-31). Separate: 21 words for eight blocks: an f16
// scale; a signed byte for every 16 columns that multiplies it; two words for each block of upper bits (two bits each: columns
// 4j + k from bit 8k + 2j on, in the first word 0-15, in the second 16-31).
struct Block { a: vec4<u32>, high: vec2<u32>, scale: vec2<f32> }

fn scales_of(index: u32) -> vec2<f32> {
  let at = (index >> 3u) * 21u;
  let pair = scales[at + 1u + ((index & 7u) >> 1u)] << (16u - (index & 1u) * 16u);
  return unpack2x16float(scales[at]).x * vec2<f32>(unpack4xI8(pair).zw);
}

fn high_at(index: u32) -> u32 {
  return (index >> 3u) * 21u + 5u + (index & 7u) * 2u;
}

fn load_block(index: u32) -> Block {
  let at = high_at(index);
  return Block(quants[index], vec2(scales[at], scales[at + 1u]), scales_of(index));
}

// (code - 32) * scale, rounded once: 32 times a scale is exact.
fn quad_of(word: u32, high: u32, j: u32, scale: f32) -> vec4<f32> {
  let nibbles = (word >> select(4u, 0u, j < 4u)) & 0x0f0f0f0fu;
  let upper = (high >> ((j & 3u) * 2u)) & 0x03030303u;
  return fma(vec4<f32>(unpack4xU8(nibbles | (upper << 4u))), vec4(scale), vec4(-32.0 * scale));
}

// Columns 4j .. 4j+3 of a block; a block has two scales, so they are applied here.
fn block_quad(block: Block, j: u32) -> vec4<f32> {
  return quad_of(block.a[j & 3u], block.high[j >> 2u], j, block.scale[j >> 2u]);
}

fn block_scale(index: u32) -> f32 {
  return 1.0;
}

// The same four columns, without decoding the rest of the block.
fn load_quad(index: u32, j: u32) -> vec4<f32> {
  return quad_of(quants[index][j & 3u], scales[high_at(index) + (j >> 2u)], j, scales_of(index)[j >> 2u]);
}

const HAS_SCALE = true;
const ONE_RANGE = false; // for all quads of a block
const HAS_OFFSET = true;

//#include "lib/packed_quads.wgsl"
//#include "lib/nibbles.wgsl"

// Codes of columns 4j .. 4j+3 as packed bytes, before the scale and the offset.
fn packed_codes(index: u32, j: u32) -> u32 {
  let upper = (scales[high_at(index) + (j >> 2u)] >> ((j & 3u) * 2u)) & 0x03030303u;
  return nibbles_of(index, j) | (upper << 4u);
}

// Codes of a block as packed bytes, in the order of columns.
fn packed_block(index: u32) -> array<vec4<u32>, 2> {
  let codes = nibble_block(index);
  let at = high_at(index);
  const shifts = vec4(0u, 2u, 4u, 6u);
  return array(
    codes[0] | (((vec4(scales[at]) >> shifts) & vec4(0x03030303u)) << vec4(4u)),
    codes[1] | (((vec4(scales[at + 1u]) >> shifts) & vec4(0x03030303u)) << vec4(4u)),
  );
}

// Scale of those codes, and the offset that is added to their products with the scale.
fn quad_range(index: u32, j: u32) -> vec2<f32> {
  return scales_of(index)[j >> 2u] * vec2(1.0, -32.0);
}
