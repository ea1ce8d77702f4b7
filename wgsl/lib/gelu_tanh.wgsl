// GELU (tanh approximation), 0.5 x (1 + tanh u), equals x / (1 + e^-z) with z = 2u, which is returned. Silu has z = x.
// Bounded below, because e^-z would overflow f32.
fn gelu_tanh_exponent(x: f32) -> f32 {
  return max(1.5957691216 * x * fma(0.044715 * x, x, 1.0), -80.0); // 2 sqrt(2 / pi)
}
