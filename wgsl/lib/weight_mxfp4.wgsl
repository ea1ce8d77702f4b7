// MXFP4, 32 weights per block: 4 words of nibbles (low: columns 0-15, high: 16-31); separate scales, the exponents of four blocks
// in each word. A nibble is a sign, two bits of exponent and one of fraction.
struct Block { a: vec4<u32> }

// Twice the values of the nibbles: 0, 1, 2, 3, 4, 6, 8, 12, negative if the highest bit is set. Building f16 from these
// bits would be faster, but the f16 for 1/2 is subnormal, which a GPU may flush to zero.
fn quad_of(word: u32, j: u32) -> vec4<f32> {
  let nibbles = (word >> select(4u, 0u, j < 4u)) & 0x0f0f0f0fu;
  let down = unpack4xU8((nibbles & 0x07070707u) << 2u);
  let sizes = vec4<i32>((vec4(0xc8643210u) >> down) & vec4(15u));
  let negative = (vec4(nibbles) & vec4(8u, 0x800u, 0x80000u, 0x8000000u)) != vec4(0u);
  return vec4<f32>(select(sizes, -sizes, negative));
}

fn load_block(index: u32) -> Block {
  return Block(quants[index]);
}

// Columns 4j .. 4j+3 of a block, before the scale.
fn block_quad(block: Block, j: u32) -> vec4<f32> {
  return quad_of(block.a[j & 3u], j);
}

// Half of 2^(exponent - 127); the two smallest are subnormal.
fn block_scale(index: u32) -> f32 {
  let exponent = (scales[index >> 2u] >> ((index & 3u) * 8u)) & 0xffu;
  return bitcast<f32>(select((exponent - 1u) << 23u, 0x00200000u << exponent, exponent < 2u));
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
