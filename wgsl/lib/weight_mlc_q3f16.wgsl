// MLC_Q3F16, 32 weights per block: 2 words of the two low bits (columns 4j + k from bit 8k + 2j on, in the first word 0-15,
// in the second 16-31), two blocks in each vec4. Separate: 7 words for every five blocks of a row: four f16 scales of 40 columns
// each, then a word for each block of third bits (bit 8k + j: column 4j + k).
// scale: of the quads before `turn`, and from there on.
struct Block { a: vec2<u32>, high: u32, turn: u32, scale: vec2<f32> }

fn load_block(index: u32) -> Block {
  let two = quants[index >> 1u];
  let row = index / params.blocks;
  let b = index - row * params.blocks;
  let at = (row * ((params.blocks + 4u) / 5u) + b / 5u) * 7u;
  // Block n of five has columns of the n-th group of 40 and, 8 n of them, of the one before.
  let n = b % 5u;
  let groups = vec2(max(n, 1u) - 1u, min(n, 3u));
  let first = unpack2x16float(scales[at + (groups.x >> 1u)])[groups.x & 1u];
  let second = unpack2x16float(scales[at + (groups.y >> 1u)])[groups.y & 1u];
  let codes = select(two.xy, two.zw, (index & 1u) != 0u);
  return Block(codes, scales[at + 2u + n], 2u * n, vec2(first, second));
}

// Columns 4j .. 4j+3 of a block; a block can have two scales, so they are applied here.
fn block_quad(block: Block, j: u32) -> vec4<f32> {
  let low = (block.a[j >> 2u] >> ((j & 3u) * 2u)) & 0x03030303u;
  let codes = low | (((block.high >> j) & 0x01010101u) << 2u);
  // (code - 3) * scale, rounded once: 3 times an f16 is exact.
  let scale = select(block.scale.y, block.scale.x, j < block.turn);
  return fma(vec4<f32>(unpack4xU8(codes)), vec4(scale), vec4(-3.0 * scale));
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

// Scale of those codes, and the offset that is added to their products with the scale.
fn quad_range(index: u32, j: u32) -> vec2<f32> {
  let block = load_block(index);
  return select(block.scale.y, block.scale.x, j < block.turn) * vec2(1.0, -3.0);
}
