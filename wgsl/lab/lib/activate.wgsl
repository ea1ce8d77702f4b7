// silu(x) = x / (1 + e^-x). GELU (tanh approximation), 0.5 x (1 + tanh u), equals x / (1 + e^-2u).
fn activate(gate: f32) -> f32 {
  var curve = gate;
  if (params.activation == 1u) {
    curve = 1.5957691216 * gate * (1.0 + 0.044715 * gate * gate); // 2 sqrt(2 / pi) (x + 0.044715 x^3)
  }
  // Without the bound, e^-curve would overflow f32.
  return gate / (1.0 + exp(min(-curve, 80.0)));
}
