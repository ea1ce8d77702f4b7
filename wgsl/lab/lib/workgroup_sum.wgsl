// Sum of a value over the workgroup. All invocations must call it together.
//#if SUBGROUPS
var<workgroup> subgroup_sums: array<f32, WG>;

// Each subgroup sums its values, and its first invocation stores the result. The invocations of a subgroup are counted,
// because subgroups can differ in size.
fn workgroup_sum(value: f32, local: u32, count: u32) -> f32 {
  let sum = subgroupAdd(value);
  let rank = subgroupExclusiveAdd(1u);
  let lanes = subgroupAdd(1u);
  subgroup_sums[local] = select(0.0, sum, rank == 0u);
  workgroupBarrier();
  var rest = 0.0;
  for (var i = rank; i < min(count, WG); i += lanes) {
    rest += subgroup_sums[i];
  }
  let all = subgroupAdd(rest);
  workgroupBarrier(); // the next call writes there
  return all;
}
//#else
var<workgroup> sum_parts: array<f32, WG>;

// Each invocation sums the first `count` results. A tree needs fewer additions, but a barrier for each level. (`count` is
// not known to the compiler, which also prevents loop unrolling.)
fn workgroup_sum(value: f32, local: u32, count: u32) -> f32 {
  sum_parts[local] = value;
  workgroupBarrier();
  var sum = 0.0;
  for (var i = 0u; i < min(count, WG); i++) {
    sum += sum_parts[i];
  }
  workgroupBarrier(); // the next call writes there
  return sum;
}
//#endif
