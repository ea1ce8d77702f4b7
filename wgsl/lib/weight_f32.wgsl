// F32, 32 weights per block: 32 words; no scale.
struct Block { q: array<vec4<f32>, 8> }

fn load_block(index: u32) -> Block {
  let at = index * 8u;
  var loaded: Block;
  for (var j = 0u; j < 8u; j++) {
    loaded.q[j] = bitcast<vec4<f32>>(quants[at + j]);
  }
  return loaded;
}

// Columns 4j .. 4j+3 of a block.
fn block_quad(block: Block, j: u32) -> vec4<f32> {
  return block.q[j];
}

fn block_scale(index: u32) -> f32 {
  return 1.0;
}

// The same four columns, without decoding the rest of the block, after the scale.
fn load_quad(index: u32, j: u32) -> vec4<f32> {
  return bitcast<vec4<f32>>(quants[index * 8u + j]);
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
