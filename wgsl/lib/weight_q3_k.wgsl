// Q3_K, 32 weights per block: 2 words of the two low bits (columns 4j + k from bit 8k + 2j on, in the first word 0-15, in
// the second 16-31), two blocks in each vec4. Separate: 13 words for eight blocks: an f16 scale; a signed byte for every 16 columns
// that multiplies it; a word for each block of third bits (bit 8k + j: column 4j + k).
struct Block { a: vec2<u32>, high: u32, scale: vec2<f32> }

fn load_block(index: u32) -> Block {
  let two = quants[index >> 1u];
  let at = (index >> 3u) * 13u;
  let pair = scales[at + 1u + ((index & 7u) >> 1u)] << (16u - (index & 1u) * 16u);
  let scale = unpack2x16float(scales[at]).x * vec2<f32>(unpack4xI8(pair).zw);
  return Block(select(two.xy, two.zw, (index & 1u) != 0u), scales[at + 5u + (index & 7u)], scale);
}

// Columns 4j .. 4j+3 of a block; a block has two scales, so they are applied here.
fn block_quad(block: Block, j: u32) -> vec4<f32> {
  let low = (block.a[j >> 2u] >> ((j & 3u) * 2u)) & 0x03030303u;
  let codes = low | (((block.high >> j) & 0x01010101u) << 2u);
  // (code - 4) * scale, rounded once: 4 times a scale is exact.
  let scale = block.scale[j >> 2u];
  return fma(vec4<f32>(unpack4xU8(codes)), vec4(scale), vec4(-4.0 * scale));
}

fn block_scale(index: u32) -> f32 {
  return 1.0;
}

// The same four columns; decoding the whole block costs little more.
fn load_quad(index: u32, j: u32) -> vec4<f32> {
  return block_quad(load_block(index), j);
}

const HAS_SCALE = true;
const ONE_RANGE = false; // for all quads of a block
const HAS_OFFSET = true;

//#include "lib/packed_quads.wgsl"

// Codes of columns 4j .. 4j+3 as packed bytes, before the scale and the offset.
fn packed_codes(index: u32, j: u32) -> u32 {
  let block = load_block(index);
  let low = (block.a[j >> 2u] >> ((j & 3u) * 2u)) & 0x03030303u;
  return low | (((block.high >> j) & 0x01010101u) << 2u);
}

// Codes of a block as packed bytes, in the order of columns.
fn packed_block(index: u32) -> array<vec4<u32>, 2> {
  return array(
    vec4(packed_codes(index, 0u), packed_codes(index, 1u), packed_codes(index, 2u), packed_codes(index, 3u)),
    vec4(packed_codes(index, 4u), packed_codes(index, 5u), packed_codes(index, 6u), packed_codes(index, 7u)),
  );
}

// Scale of those codes, and the offset that is added to their products with the scale.
fn quad_range(index: u32, j: u32) -> vec2<f32> {
  return load_block(index).scale[j >> 2u] * vec2(1.0, -4.0);
}
