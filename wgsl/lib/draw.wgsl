// Monotonic: a larger logit has a larger key.
fn order_key(logit: f32) -> u32 {
  let bits = bitcast<u32>(logit);
  return select(bits ^ 0x80000000u, ~bits, (bits & 0x80000000u) != 0u);
}

fn mix(value: u32) -> u32 {
  var v = value;
  v ^= v >> 16u;
  v *= 0x7feb352du;
  v ^= v >> 15u;
  v *= 0x846ca68bu;
  v ^= v >> 16u;
  return v;
}

fn gumbel(seed: u32, position: u32, token: u32) -> f32 {
  let hash = mix(mix(seed ^ (position * 0x9e3779b9u)) ^ (token * 0x85ebca6bu));
  let v = (f32(hash >> 9u) + 0.5) * 0x1p-23;
  // -log(1 - v); a series near 0, where the log of GPUs loses precision.
  let e = select(-log(1.0 - v), v * (1.0 + v * (0.5 + v * 0.33333334)), v < 0.01);
  return -log(e);
}
