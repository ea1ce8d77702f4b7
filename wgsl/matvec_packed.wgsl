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
var<workgroup> x_sum: array<vec2<f32>, SLOTS>; // of the two halves of a block
// Of each subgroup: sums, and of squares of the tokens.
var<workgroup> sums_of: array<f32, SUBS * RESULTS>;
var<workgroup> squares_of: array<f32, SUBS * COLS>;

//#include "lib/step.wgsl"
//#include "lib/matmul_params.wgsl"
//#include "lib/weight_$FORMAT.wgsl"

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
        let codes = vec4(packed_codes(index, 0u), packed_codes(index, 1u), packed_codes(index, 2u), packed_codes(index, 3u));
        let upper_codes = vec4(packed_codes(index, 4u), packed_codes(index, 5u), packed_codes(index, 6u), packed_codes(index, 7u));
        //#unroll
        for (var c = 0u; c < COLS; c++) {
          let slot = c * TILE_BLOCKS + i;
          let low = product(codes, x_words[slot * 5u], x_words[slot * 5u + 2u]);
          let high = product(upper_codes, x_words[slot * 5u + 1u], x_words[slot * 5u + 3u]);
          if (ONE_RANGE) {
            var value = f32(low + high) * x_scale[slot] * range.x;
            if (HAS_OFFSET) {
              value = fma(x_sum[slot].x + x_sum[slot].y, range.y, value);
            }
            sum[c * ROWS + r] += value;
          } else {
            let lower_half = fma(x_sum[slot].x, range.y, f32(low) * x_scale[slot] * range.x);
            let upper_half = fma(x_sum[slot].y, upper_range.y, f32(high) * x_scale[slot] * upper_range.x);
            sum[c * ROWS + r] += lower_half + upper_half;
          }
        }
      }
    }
  }
  // After this, any lane of a subgroup can write any of its results.
  //#unroll
  for (var i = 0u; i < RESULTS; i++) {
    sum[i] = subgroupAdd(sum[i]);
  }
  var squared = array<f32, COLS>();
  if (has(NORM_IN)) {
    //#unroll
    for (var c = 0u; c < COLS; c++) {
      for (var p = local; p < params.parts; p += THREADS) {
        squared[c] += squares[(token0 + c) * params.parts + p];
      }
      squared[c] = subgroupAdd(squared[c]);
    }
  }
  if (lane == 0u) {
    //#unroll
    for (var i = 0u; i < RESULTS; i++) {
      sums_of[sub * RESULTS + i] = sum[i];
    }
    //#unroll
    for (var c = 0u; c < COLS; c++) {
      squares_of[sub * COLS + c] = squared[c];
    }
  }
  workgroupBarrier();
  let tokens = decode_end();
  for (var base = 0u; base < min(COLS * across, params.loop_limit); base += LANES) {
    let i = base + lane;
    let token = token0 + i / across;
    let row = row0 + i % across;
    let inside = i < COLS * across && row < out_rows() && token < tokens;
    var value = 0.0;
    if (inside) {
      let inverse = inverse_of(i / across);
      value = sums_of[sub * RESULTS + (i << pair)] * inverse;
      if (pair != 0u) {
        value = activate(value) * sums_of[sub * RESULTS + 2u * i + 1u] * inverse;
      }
      value = write_result(token, row, value);
    }
    if (has(NORM_OUT)) {
      // ROWS adjacent lanes have the rows of a token. Each partial sum of squares covers ROWS rows.
      var square = value * value;
      for (var other = 1u; other < ROWS; other *= 2u) {
        square += subgroupShuffleXor(square, other);
      }
      if (inside && i % ROWS == 0u) {
        squares[token * params.parts + row / ROWS] = square;
      }
    }
  }
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
    let a = x[source] * weight;
    let d = x[source + 1u] * weight;
    let e = x[source + 2u] * weight;
    let f = x[source + 3u] * weight;
    // Magnitudes as bits, which have the same order, with NaN last: the maximum of f32 may drop NaN.
    let greatest = max(
      max(bitcast<vec4<u32>>(abs(a)), bitcast<vec4<u32>>(abs(d))),
      max(bitcast<vec4<u32>>(abs(e)), bitcast<vec4<u32>>(abs(f))),
    );
    let own = max(max(greatest.x, greatest.y), max(greatest.z, greatest.w));
    let top = bitcast<f32>(max(own, subgroupShuffleXor(own, 1u)));
    let per_unit = select(0.0, UNITS / top, top > 0.0);
    let units_a = vec4<i32>(round(a * per_unit));
    let units_d = vec4<i32>(round(d * per_unit));
    let units_e = vec4<i32>(round(e * per_unit));
    let units_f = vec4<i32>(round(f * per_unit));
    let upper_a = (units_a + 128) >> vec4(8u);
    let upper_d = (units_d + 128) >> vec4(8u);
    let upper_e = (units_e + 128) >> vec4(8u);
    let upper_f = (units_f + 128) >> vec4(8u);
    let total = units_a + units_d + units_e + units_f;
    let scale = top / UNITS;
    x_words[slot * 5u + half] = vec4(pack4xI8(upper_a), pack4xI8(upper_d), pack4xI8(upper_e), pack4xI8(upper_f));
    // The lowest eight bits of the units are those of the lower byte.
    x_words[slot * 5u + 2u + half] = vec4(pack4xI8(units_a), pack4xI8(units_d), pack4xI8(units_e), pack4xI8(units_f));
    x_sum[slot][half] = f32(total.x + total.y + total.z + total.w) * scale;
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

// 1 / RMS of the c-th token, or 1.
fn inverse_of(c: u32) -> f32 {
  if (has(NORM_IN)) {
    var squared = 0.0;
    for (var s = 0u; s < min(SUBS, params.loop_limit); s++) {
      squared += squares_of[s * COLS + c];
    }
    return inverse_rms(squared);
  }
  return 1.0;
}
