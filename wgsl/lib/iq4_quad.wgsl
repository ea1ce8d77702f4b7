// Values of four nibbles of a word in the IQ4 types, before the scale: -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25,
// 38, 53, 69, 89, 113. The upper bits of a nibble select a word with four values, its lower bits shift one of them to the
// top, and an arithmetic shift extends its sign. An array is slower on a software adapter, and uses memory on a GPU.
fn quad_of(word: u32, j: u32) -> vec4<f32> {
  let nibbles = (word >> select(4u, 0u, j < 4u)) & 0x0f0f0f0fu;
  let codes = unpack4xU8(nibbles);
  let up = unpack4xU8(((nibbles & 0x03030303u) << 3u) ^ 0x18181818u);
  let third = (codes & vec4(4u)) != vec4(0u);
  let below = select(vec4(0xbfad9881u), vec4(0xf6eaddcfu), third);
  let above = select(vec4(0x26190d01u), vec4(0x71594535u), third);
  let four = select(below, above, codes >= vec4(8u));
  return vec4<f32>(bitcast<vec4<i32>>(four << up) >> vec4(24u));
}
