// BF16, 32 weights per block: 16 words of two bfloat16 (the upper half of an f32); no scale.
struct Block { a: vec4<u32>, b: vec4<u32>, c: vec4<u32>, d: vec4<u32> }

fn load_block(index: u32) -> Block {
  let at = index * 4u;
  return Block(quants[at], quants[at + 1u], quants[at + 2u], quants[at + 3u]);
}

// Columns 4j .. 4j+3 of a block.
fn block_quad(block: Block, j: u32) -> vec4<f32> {
  let four = select(select(block.d, block.c, j < 6u), select(block.b, block.a, j < 2u), j < 4u);
  let at = (j & 1u) * 2u;
  let low = four[at];
  let high = four[at + 1u];
  return bitcast<vec4<f32>>(vec4<u32>(low << 16u, low & 0xffff0000u, high << 16u, high & 0xffff0000u));
}

fn block_scale(index: u32) -> f32 {
  return 1.0;
}

// The same four columns, without decoding the rest of the block, after the scale.
fn load_quad(index: u32, j: u32) -> vec4<f32> {
  let four = quants[index * 4u + (j >> 1u)];
  let low = four[(j & 1u) * 2u];
  let high = four[(j & 1u) * 2u + 1u];
  return bitcast<vec4<f32>>(vec4<u32>(low << 16u, low & 0xffff0000u, high << 16u, high & 0xffff0000u));
}

const HAS_SCALE = false;
const ONE_RANGE = true; // for all quads of a block
const HAS_OFFSET = false;

// The same four columns, before the scale and the offset.
fn quad_codes(index: u32, j: u32) -> vec4<f32> {
  return load_quad(index, j);
}

// Scale of those codes, and the offset that is added to their products with the scale.
fn quad_range(index: u32, j: u32) -> vec2<f32> {
  return vec2(1.0, 0.0);
}
