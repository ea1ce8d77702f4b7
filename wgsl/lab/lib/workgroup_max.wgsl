// Maximum of a value over the workgroup. All invocations must call it together.
//#if SUBGROUPS
var<workgroup> subgroup_tops: array<f32, WG>;

// Every invocation stores the result of its subgroup, so it does not matter how invocations map to subgroups.
fn workgroup_max(value: f32, local: u32, count: u32) -> f32 {
  subgroup_tops[local] = subgroupMax(value);
  let rank = subgroupExclusiveAdd(1u);
  let lanes = subgroupAdd(1u);
  workgroupBarrier();
  var top = subgroup_tops[local];
  for (var i = rank; i < min(count, WG); i += lanes) {
    top = max(top, subgroup_tops[i]);
  }
  top = subgroupMax(top);
  workgroupBarrier(); // the next call writes there
  return top;
}
//#else
var<workgroup> max_parts: array<f32, WG>;

fn workgroup_max(value: f32, local: u32, count: u32) -> f32 {
  max_parts[local] = value;
  workgroupBarrier();
  var top = value;
  for (var i = 0u; i < min(count, WG); i++) {
    top = max(top, max_parts[i]);
  }
  workgroupBarrier(); // the next call writes there
  return top;
}
//#endif
