// Codes of CODE_BITS bits as floats without a conversion from integers, which takes as long as eight multiplications on some GPUs:
// the bits of a code become the first of the mantissa, which gives 1 + code / 2^CODE_BITS. Scale and offset make up for that.
const CODE_SPAN = f32(1u << CODE_BITS);
const CODE_SHIFT = 23u - CODE_BITS;

// The codes of the four bytes of a word. CODE_BITS is at most 7.
fn mantissas_of(codes: u32) -> vec4<f32> {
  let aligned = vec4(
    codes << CODE_SHIFT,
    codes << (CODE_SHIFT - 8u),
    codes << (CODE_SHIFT - 16u),
    codes >> (24u - CODE_SHIFT),
  );
  return bitcast<vec4<f32>>((aligned & vec4(((1u << CODE_BITS) - 1u) << CODE_SHIFT)) | vec4(0x3f800000u));
}

// Scale and offset for those, from the scale and offset of codes.
fn mantissa_range(range: vec2<f32>) -> vec2<f32> {
  return vec2(range.x * CODE_SPAN, fma(range.x, -CODE_SPAN, range.y));
}
