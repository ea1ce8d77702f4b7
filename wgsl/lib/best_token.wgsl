// Reductions over a workgroup of WG threads. All of them must call it, in uniform control flow.
const_assert (WG & (WG - 1u)) == 0u;
const NONE = 0xffffffffu;

var<workgroup> best_value: array<f32, WG>;
var<workgroup> best_token: array<u32, WG>;

// The largest value of the workgroup and its lowest token.
fn reduce_best(local: u32, value: f32, token: u32) -> u32 {
  best_value[local] = value;
  best_token[local] = token;
  for (var half = WG / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (local < half) {
      let other = best_value[local + half];
      let its = best_token[local + half];
      if (other > best_value[local] || (other == best_value[local] && its < best_token[local])) {
        best_value[local] = other;
        best_token[local] = its;
      }
    }
  }
  return workgroupUniformLoad(&best_token[0]);
}

fn sum_all(local: u32, value: f32) -> f32 {
  best_value[local] = value;
  for (var half = WG / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (local < half) {
      best_value[local] += best_value[local + half];
    }
  }
  return workgroupUniformLoad(&best_value[0]);
}
