// Q2_K, 32 weights per block: 2 words of 2-bit codes (columns 4j + k from bit 8k + 2j on, in the first word 0-15, in the
// second 16-31), two blocks in each vec4. Separate: five words for eight blocks: f16 scale and minimum, then a byte for every 16
// columns, whose low nibble multiplies the scale and whose high nibble the minimum.
struct Block { a: vec2<u32>, scale: vec2<f32>, minimum: vec2<f32> }

fn codes_of(index: u32) -> vec2<u32> {
  let two = quants[index >> 1u];
  return select(two.xy, two.zw, (index & 1u) != 0u);
}

fn load_block(index: u32) -> Block {
  let at = (index >> 3u) * 5u;
  let pairs = (vec2(scales[at + 1u + ((index & 7u) >> 1u)]) >> (vec2(0u, 8u) + (index & 1u) * 16u)) & vec2(0xffu);
  let range = unpack2x16float(scales[at]);
  return Block(codes_of(index), range.x * vec2<f32>(pairs & vec2(15u)), range.y * vec2<f32>(pairs >> vec2(4u)));
}

// Columns 4j .. 4j+3 of a block; with the minima applied, no scale remains.
fn block_quad(block: Block, j: u32) -> vec4<f32> {
  let codes = (block.a[j >> 2u] >> ((j & 3u) * 2u)) & 0x03030303u;
  return fma(vec4<f32>(unpack4xU8(codes)), vec4(block.scale[j >> 2u]), vec4(-block.minimum[j >> 2u]));
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
  return (codes_of(index)[j >> 2u] >> ((j & 3u) * 2u)) & 0x03030303u;
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
  let block = load_block(index);
  return vec2(block.scale[j >> 2u], -block.minimum[j >> 2u]);
}
