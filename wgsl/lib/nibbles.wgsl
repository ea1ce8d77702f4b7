// Nibbles of columns 4j .. 4j+3 as packed bytes, for formats with four words per block (low: columns 0-15, high: 16-31).
fn nibbles_of(index: u32, j: u32) -> u32 {
  return (quants[index][j & 3u] >> select(4u, 0u, j < 4u)) & 0x0f0f0f0fu;
}

// The same with a fifth bit, from `high`: bit j of each byte is that of columns 4j .. 4j+3.
fn five_bit_block(index: u32, high: u32) -> array<vec4<u32>, 2> {
  let codes = nibble_block(index);
  let low = (vec4(high) >> vec4(0u, 1u, 2u, 3u)) & vec4(0x01010101u);
  let upper = (vec4(high) >> vec4(4u, 5u, 6u, 7u)) & vec4(0x01010101u);
  return array(codes[0] | (low << vec4(4u)), codes[1] | (upper << vec4(4u)));
}

// Nibbles of a block, in one read: columns 0 to 15 and 16 to 31.
fn nibble_block(index: u32) -> array<vec4<u32>, 2> {
  let words = quants[index];
  return array(words & vec4(0x0f0f0f0fu), (words >> vec4(4u)) & vec4(0x0f0f0f0fu));
}
