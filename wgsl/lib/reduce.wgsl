// Sum and maximum over a workgroup. All invocations must call them, in uniform control flow.
// With one subgroup per workgroup, neither memory nor barriers are needed.
//#if SUBGROUPS
fn workgroup_sum(value: f32, local: u32) -> f32 {
  return subgroupAdd(value);
}

fn workgroup_max(value: f32, local: u32) -> f32 {
  return subgroupMax(value);
}
//#else
var<workgroup> reduce_scratch: array<f32, WG>;

fn workgroup_sum(value: f32, local: u32) -> f32 {
  reduce_scratch[local] = value;
  for (var half = WG / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (local < half) {
      reduce_scratch[local] += reduce_scratch[local + half];
    }
  }
  let sum = workgroupUniformLoad(&reduce_scratch[0]);
  return sum;
}

fn workgroup_max(value: f32, local: u32) -> f32 {
  reduce_scratch[local] = value;
  for (var half = WG / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (local < half) {
      reduce_scratch[local] = max(reduce_scratch[local], reduce_scratch[local + half]);
    }
  }
  let largest = workgroupUniformLoad(&reduce_scratch[0]);
  return largest;
}
//#endif
