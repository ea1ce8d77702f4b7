// MLC_Q4F32, 32 weights per block: 4 words of nibbles (low: columns 0-15, high: 16-31); separate scales, one f32 each.
struct Block { a: vec4<u32> }

fn load_block(index: u32) -> Block {
  return Block(quants[index]);
}

fn quad_of(word: u32, j: u32) -> vec4<f32> {
  let nibbles = (word >> select(4u, 0u, j < 4u)) & 0x0f0f0f0fu;
  return vec4<f32>(unpack4xU8(nibbles)) - 7.0;
}

// Columns 4j .. 4j+3 of a block, before the scale.
fn block_quad(block: Block, j: u32) -> vec4<f32> {
  return quad_of(block.a[j & 3u], j);
}

fn block_scale(index: u32) -> f32 {
  return bitcast<f32>(scales[index]);
}

// The same four columns, without decoding the rest of the block, after the scale.
fn load_quad(index: u32, j: u32) -> vec4<f32> {
  return quad_of(quants[index][j & 3u], j) * block_scale(index);
}

const HAS_SCALE = true;
const ONE_RANGE = true; // for all quads of a block
const HAS_OFFSET = true;

//#include "lib/packed_quads.wgsl"
//#include "lib/nibbles.wgsl"

// Codes of columns 4j .. 4j+3 as packed bytes, before the scale and the offset.
fn packed_codes(index: u32, j: u32) -> u32 {
  return nibbles_of(index, j);
}

// Codes of a block as packed bytes, in the order of columns.
fn packed_block(index: u32) -> array<vec4<u32>, 2> {
  return nibble_block(index);
}

// Scale of those codes, and the offset that is added to their products with the scale.
fn quad_range(index: u32, j: u32) -> vec2<f32> {
  return block_scale(index) * vec2(1.0, -7.0);
}
