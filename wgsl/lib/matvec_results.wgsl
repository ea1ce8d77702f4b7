// Processing of the sums of a matrix-vector kernel: a subgroup writes ROWS rows of W for COLS tokens. The kernel provides
// result_of(sub, i), the sum over all columns of the i-th result of a subgroup: [token, row].
//#if SUBGROUPS
// Sums of squares of the tokens, of each subgroup.
var<workgroup> squares_of: array<f32, SUBS * COLS>;

// All threads sum the squares of the tokens. After the next barrier, every thread can call write_results.
fn gather_squares(token0: u32, local: u32) {
  //#unroll
  for (var c = 0u; c < COLS; c++) {
    var squared = 0.0;
    if (has(NORM_IN)) {
      for (var p = local; p < params.parts; p += THREADS) {
        squared += squares[(token0 + c) * params.parts + p];
      }
      squared = subgroupAdd(squared);
    }
    if (local % LANES == 0u) {
      squares_of[local / LANES * COLS + c] = squared;
    }
  }
}
//#endif

// 1 / RMS of the c-th token, or 1.
fn inverse_of(c: u32) -> f32 {
  //#if SUBGROUPS
  if (has(NORM_IN)) {
    var squared = 0.0;
    for (var s = 0u; s < min(SUBS, params.loop_limit); s++) {
      squared += squares_of[s * COLS + c];
    }
    return inverse_rms(squared);
  }
  //#endif
  return 1.0;
}

// All subgroups must call it. `writes`: whether this one writes its results; its rows of y begin at `row0`.
fn write_results(row0: u32, token0: u32, sub: u32, lane: u32, writes: bool) {
  let pair = pairing();
  let across = ROWS >> pair;
  let tokens = decode_end();
  for (var base = 0u; base < min(COLS * across, params.loop_limit); base += LANES) {
    let i = base + lane;
    let token = token0 + i / across;
    let row = row0 + i % across;
    let inside = writes && i < COLS * across && row < out_rows() && token < tokens;
    var value = 0.0;
    if (inside) {
      let inverse = inverse_of(i / across);
      value = result_of(sub, i << pair) * inverse;
      if (pair != 0u) {
        value = activate(value) * result_of(sub, 2u * i + 1u) * inverse;
      }
      value = write_result(token, row, value);
    }
    //#if SUBGROUPS
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
    //#endif
  }
}
