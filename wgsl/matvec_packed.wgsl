// y[t, n] = sum over k of W[n, k] x[t, k], like matvec, for weights with integer codes, four products per instruction. A workgroup
// rounds each block of 32 columns of x to 16 bits with a common scale, as an upper and a lower byte, so that codes are multiplied
// by packed 8-bit dot products. The sums are exact but for that rounding (2^-16 of the largest column of a block).
// Each of SUBS subgroups computes ROWS rows for COLS tokens, a block per lane.
// The order of the sum depends only on LANES, so the result of a token does not depend on the other tokens.
enable subgroups;

@group(0) @binding(3) var<storage, read> x: array<vec4<f32>>;

const THREADS = LANES * SUBS;
const RESULTS = COLS * ROWS;
const SLOTS = TILE_BLOCKS * COLS;   // blocks of x in workgroup memory
const ROUNDS = SLOTS * 2u / THREADS; // half blocks that a thread rounds
const STEPS = TILE_BLOCKS / LANES;   // blocks of a lane in a tile
const_assert ROUNDS * THREADS == SLOTS * 2u;
const_assert STEPS * LANES == TILE_BLOCKS;
const UNITS = 32512.0;              // 127 * 256: the largest value, so that the upper byte fits

// For each block, two vectors of upper bytes, two of lower ones, and one that moves the next block to other banks.
var<workgroup> x_words: array<vec4<u32>, SLOTS * 5u>;
var<workgroup> x_scale: array<f32, SLOTS>;
var<workgroup> x_sum: array<f32, SLOTS * 2u>; // of the halves of a block
var<workgroup> sums_of: array<f32, SUBS * RESULTS>; // of each subgroup

//#include "lib/step.wgsl"
//#include "lib/matmul_params.wgsl"
//#include "lib/weight_$FORMAT.wgsl"
//#include "lib/matvec_results.wgsl"

@compute @workgroup_size(THREADS)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
) {
  let lane = local % LANES;
  let sub = local / LANES;
  let pair = pairing();
  let across = ROWS >> pair;
  // Groups of rows continue in z if x is full; the last groups can be beyond the last row.
  let row0 = ((group.z * groups.x + group.x) * SUBS + sub) * across;
  let token0 = group.y * COLS;

  var row_start = array<u32, ROWS>();
  //#unroll
  for (var r = 0u; r < ROWS; r++) {
    row_start[r] = row_of(row0, r, 1u) * params.blocks;
  }
  var sum = array<f32, RESULTS>();
  for (var tile = 0u; tile < params.blocks; tile += TILE_BLOCKS) {
    workgroupBarrier();
    round_tile(tile, token0, local);
    workgroupBarrier();
    for (var step_index = 0u; step_index < STEPS; step_index++) {
      let i = step_index * LANES + lane;
      // Lanes past the last block multiply it by blocks of x that are zero.
      let b = min(tile + i, params.blocks - 1u);
      //#unroll
      for (var r = 0u; r < ROWS; r++) {
        let index = row_start[r] + b;
        let range = quad_range(index, 0u);
        let upper_range = quad_range(index, 4u);
        let codes = packed_block(index);
        //#unroll
        for (var c = 0u; c < COLS; c++) {
          let slot = c * TILE_BLOCKS + i;
          let low = product(codes[0], x_words[slot * 5u], x_words[slot * 5u + 2u]);
          let high = product(codes[1], x_words[slot * 5u + 1u], x_words[slot * 5u + 3u]);
          if (ONE_RANGE) {
            var value = f32(low + high) * x_scale[slot] * range.x;
            if (HAS_OFFSET) {
              value = fma(x_sum[2u * slot] + x_sum[2u * slot + 1u], range.y, value);
            }
            sum[c * ROWS + r] += value;
          } else {
            let lower_half = fma(x_sum[2u * slot], range.y, f32(low) * x_scale[slot] * range.x);
            let upper_half = fma(x_sum[2u * slot + 1u], upper_range.y, f32(high) * x_scale[slot] * upper_range.x);
            sum[c * ROWS + r] += lower_half + upper_half;
          }
        }
      }
    }
  }
  //#unroll
  for (var i = 0u; i < RESULTS; i++) {
    sum[i] = subgroupAdd(sum[i]);
  }
  if (lane == 0u) {
    //#unroll
    for (var i = 0u; i < RESULTS; i++) {
      sums_of[sub * RESULTS + i] = sum[i];
    }
  }
  gather_squares(token0, local);
  workgroupBarrier();
  write_results(row0, token0, sub, lane, true);
}

fn result_of(sub: u32, i: u32) -> f32 {
  return sums_of[sub * RESULTS + i];
}

// Rounds the columns of a tile: a thread rounds 16 columns of a block, adjacent lanes the two halves of it.
fn round_tile(tile: u32, token0: u32, local: u32) {
  for (var round_index = 0u; round_index < ROUNDS; round_index++) {
    let half_block = round_index * THREADS + local;
    let slot = half_block / 2u;
    let half = half_block % 2u;
    let b = tile + slot % TILE_BLOCKS;
    let source = ((token0 + slot / TILE_BLOCKS) * params.blocks + min(b, params.blocks - 1u)) * 8u + half * 4u;
    let weight = f32(b < params.blocks);
    let columns0 = x[source] * weight;
    let columns1 = x[source + 1u] * weight;
    let columns2 = x[source + 2u] * weight;
    let columns3 = x[source + 3u] * weight;
    // Magnitudes as bits, which have the same order, with NaN last: the maximum of f32 may drop NaN.
    let greatest = max(
      max(bitcast<vec4<u32>>(abs(columns0)), bitcast<vec4<u32>>(abs(columns1))),
      max(bitcast<vec4<u32>>(abs(columns2)), bitcast<vec4<u32>>(abs(columns3))),
    );
    let own = max(max(greatest.x, greatest.y), max(greatest.z, greatest.w));
    let top = bitcast<f32>(max(own, subgroupShuffleXor(own, 1u)));
    let per_unit = select(0.0, UNITS / top, top > 0.0);
    let units0 = vec4<i32>(round(columns0 * per_unit));
    let units1 = vec4<i32>(round(columns1 * per_unit));
    let units2 = vec4<i32>(round(columns2 * per_unit));
    let units3 = vec4<i32>(round(columns3 * per_unit));
    let upper0 = (units0 + 128) >> vec4(8u);
    let upper1 = (units1 + 128) >> vec4(8u);
    let upper2 = (units2 + 128) >> vec4(8u);
    let upper3 = (units3 + 128) >> vec4(8u);
    let total = units0 + units1 + units2 + units3;
    let scale = top / UNITS;
    x_words[slot * 5u + half] = vec4(pack4xI8(upper0), pack4xI8(upper1), pack4xI8(upper2), pack4xI8(upper3));
    // The lowest eight bits of the units are those of the lower byte.
    x_words[slot * 5u + 2u + half] = vec4(pack4xI8(units0), pack4xI8(units1), pack4xI8(units2), pack4xI8(units3));
    x_sum[half_block] = f32(total.x + total.y + total.z + total.w) * scale;
    if (half == 0u) {
      x_scale[slot] = scale;
    }
  }
}

// Sum of the products of 16 codes with their columns, in units of the block.
fn product(codes: vec4<u32>, upper: vec4<u32>, lower: vec4<u32>) -> i32 {
  let high = dot4I8Packed(codes.x, upper.x) + dot4I8Packed(codes.y, upper.y)
    + dot4I8Packed(codes.z, upper.z) + dot4I8Packed(codes.w, upper.w);
  let low = dot4I8Packed(codes.x, lower.x) + dot4I8Packed(codes.y, lower.y)
    + dot4I8Packed(codes.z, lower.z) + dot4I8Packed(codes.w, lower.w);
  return high * 256 + low;
}
