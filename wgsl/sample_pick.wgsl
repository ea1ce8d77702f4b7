// Draws one token a row of logits: greedy at temperature 0, else temperature, top-k, top-p, min-p and Gumbel-max
// (the token with the greatest logit / temperature + noise is a draw from the softmax). A row a workgroup.
// Noise depends on (seed, position, token) alone, so a draw does not depend on what else the step holds.
// Cuts are found by radix selection on the bits of the logits, not by sorting; masses are summed in fixed
// point, whose sums do not depend on order. Equal logits at a cut are all kept.

struct Params {
  vocabulary: u32,
  // Always 2 and 4: unknown to the compiler, so that it does not write the loops out, which takes it seconds.
  rules: u32,
  levels: u32,
}

@group(0) @binding(0) var<storage, read> samples: array<Sample>;
@group(0) @binding(1) var<storage, read> logits: array<f32>;
@group(0) @binding(2) var<storage, read_write> seen: array<u32>;
@group(0) @binding(3) var<storage, read_write> sampled: array<u32>;
@group(0) @binding(4) var<storage, read_write> results: array<u32>;
@group(0) @binding(5) var<uniform> params: Params;

const MASS_ONE = 1073741824.0; // 2^30: the whole mass in fixed point

//#include "lib/sample_record.wgsl"
//#include "lib/draw.wgsl"
//#include "lib/best_token.wgsl"

var<workgroup> bins: array<atomic<u32>, 256>;
var<workgroup> chosen: vec2<u32>; // bin, what is still wanted below it

// One radix step: in the bins of key bits [shift, shift + 8), from the top, the bin where `wanted` is reached.
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

@compute @workgroup_size(WG)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
) {
  let sample = samples[group.x];
  let row = group.x * params.vocabulary;

  var value = -3.4e38;
  var token = NONE;
  for (var v = local; v < params.vocabulary; v += WG) {
    let logit = logits[row + v];
    if (logit > value) {
      value = logit;
      token = v;
    }
  }
  var pick = reduce_best(local, value, token);

  if (sample.temperature > 0.0 && pick != NONE) {
    let top = logits[row + pick];
    let per_degree = 1.0 / sample.temperature;
    var cut = 0u;

    // First the top_k greatest, then the fewest of them whose mass reaches top_p.
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

    // The greatest always stays, whatever the rounding of log does.
    let floor_value = select(-3.4e38, log(sample.min_p), sample.min_p > 0.0);
    value = -3.4e38;
    token = NONE;
    for (var v = local; v < params.vocabulary; v += WG) {
      let logit = logits[row + v];
      let scaled = (logit - top) * per_degree;
      if (logit == top || (order_key(logit) >= cut && scaled >= floor_value)) {
        let noisy = scaled + gumbel(sample.seed, sample.position, v);
        if (noisy > value) {
          value = noisy;
          token = v;
        }
      }
    }
    workgroupBarrier();
    pick = reduce_best(local, value, token);
  }

  if (local == 0u) {
    sampled[sample.slot] = pick;
    results[group.x] = pick;
    if ((sample.flags & HAS_PENALTIES) != 0u && pick != NONE) {
      seen[sample.slot * params.vocabulary + pick] += 1u;
    }
  }
}
