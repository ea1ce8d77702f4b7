// Cutoffs of the sampling rules in a row of logits, for kernels with `logits` and `params`. All threads of the workgroup
// must call it, in uniform control flow.
const MASS_ONE = 1073741824.0; // 2^30: the total mass in fixed point

var<workgroup> bins: array<atomic<u32>, 256>;
var<workgroup> chosen: vec2<u32>; // bin, and the remaining amount below it

// One radix step: of the bins of key bits [shift, shift + 8), from the top, the bin in which `wanted` is reached.
fn pick_bin(local: u32, wanted: u32) -> vec2<u32> {
  workgroupBarrier();
  if (local == 0u) {
    var left = wanted;
    var bin = 255u;
    loop {
      let here = atomicLoad(&bins[bin]);
      if (here >= left || bin == 0u) {
        break;
      }
      left -= here;
      bin--;
    }
    chosen = vec2(bin, left);
  }
  return workgroupUniformLoad(&chosen);
}

fn clear_bins(local: u32) {
  workgroupBarrier();
  for (var b = local; b < 256u; b += WG) {
    atomicStore(&bins[b], 0u);
  }
  workgroupBarrier();
}

// The smallest key (see order_key) of the tokens that top_k and top_p keep at a temperature above 0.
fn cut_of(sample: Sample, row: u32, local: u32, top: f32) -> u32 {
  let per_degree = 1.0 / sample.temperature;
  var cut = 0u;

  // First the top_k largest, then the fewest of them whose mass reaches top_p.
  for (var rule = 0u; rule < params.rules; rule++) {
    let by_mass = rule == 1u;
    let idle = select(sample.top_k == 0u || sample.top_k >= params.vocabulary, sample.top_p >= 1.0, by_mass);
    if (idle) {
      continue;
    }
    var unit = 0.0;
    if (by_mass) {
      var mine = 0.0;
      for (var v = local; v < params.vocabulary; v += WG) {
        let logit = logits[row + v];
        if (order_key(logit) >= cut) {
          mine += exp((logit - top) * per_degree);
        }
      }
      unit = MASS_ONE / sum_all(local, mine);
    }
    var wanted = select(sample.top_k, max(u32(sample.top_p * MASS_ONE), 1u), by_mass);
    var prefix = 0u;
    for (var level = 0u; level < params.levels; level++) {
      let shift = 24u - 8u * level;
      clear_bins(local);
      for (var v = local; v < params.vocabulary; v += WG) {
        let logit = logits[row + v];
        let key = order_key(logit);
        if (key >= cut && (level == 0u || (key >> (shift + 8u)) == (prefix >> (shift + 8u)))) {
          let mass = u32(exp((logit - top) * per_degree) * unit + 0.5);
          atomicAdd(&bins[(key >> shift) & 255u], select(1u, mass, by_mass));
        }
      }
      let found = pick_bin(local, wanted);
      prefix |= found.x << shift;
      wanted = found.y;
    }
    cut = max(cut, prefix);
  }
  return cut;
}
