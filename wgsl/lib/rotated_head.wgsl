// Rotation of heads of q and k in attention kernels that do it while they decode (ROPE). The kernel provides the bindings qkv,
// table and, with QK_NORM, norm_weight, and params.rotary. `scale`: 1 / RMS of the head; `base`: its start in qkv.
fn normalized(base: u32, e: u32, scale: f32, weight_offset: u32) -> f32 {
  //#if QK_NORM
  return qkv[base + e] * scale * norm_weight[weight_offset + e];
  //#else
  return qkv[base + e];
  //#endif
}

// Element e of a head of q or k, rotated as in rope_kv_write.
fn rotated(base: u32, e: u32, position: u32, scale: f32, weight_offset: u32) -> f32 {
  let own = normalized(base, e, scale, weight_offset);
  if (e >= params.rotary) {
    return own;
  }
  let half = params.rotary / 2u;
  //#if NEOX
  let low = e < half;
  let other = select(e - half, e + half, low);
  let turn = table[position * half + min(e, other)];
  //#else
  let low = e % 2u == 0u;
  let other = e ^ 1u;
  let turn = table[position * half + e / 2u];
  //#endif
  let its = normalized(base, other, scale, weight_offset);
  return select(its * turn.y + own * turn.x, own * turn.x - its * turn.y, low);
}
