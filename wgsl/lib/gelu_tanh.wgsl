// The z with which GELU by tanh, 0.5 x (1 + tanh u), is x / (1 + e^-z): 2u. Silu is the same with z = x.
// Bounded below: e^-z would leave f32.
fn gelu_tanh_exponent(x: f32) -> f32 {
  return max(1.5957691216 * x * fma(0.044715 * x, x, 1.0), -80.0); // 2 sqrt(2 / pi)
}
