// The sum of a value over a workgroup, for every invocation; all of them must call it together.
//#if SUBGROUPS
var<workgroup> subgroup_sums: array<f32, WG>;

// A subgroup adds up by itself; its first invocation leaves the result for the others. How many invocations a
// subgroup has is counted, because it may differ from one to the next.
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

// Each adds up what the first `count` have left; the others have nothing to add. A tree takes fewer additions, and a
// barrier for each of its levels. (A count that only the GPU knows also keeps compilers from writing the loop out.)
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
