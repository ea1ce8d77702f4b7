// Codes of weights as floats, for formats whose codes are packed bytes without a sign: packed_codes.
fn quad_codes(index: u32, j: u32) -> vec4<f32> {
  return vec4<f32>(unpack4xU8(packed_codes(index, j)));
}
