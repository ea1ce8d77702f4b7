// Processing of the 4 x 4 sums of each of the GROUPS x GROUPS threads of a tile.
// The kernel provides THREADS words of workgroup memory for sums of squares: keep_square, kept_square.
const SHARE = THREADS / TILE; // threads for each token

// Place of the n-th sum of a token, such that adjacent threads use different banks.
fn square_at(token: u32, n: u32) -> u32 {
  return n * TILE + (token ^ (n * 8u));
}

// Several threads sum the parts of each token; after this, every thread can call inverse_of.
fn gather_squares(token0: u32, local: u32) {
  let tokens = matmul_tokens();
  var squared = 0.0;
  for (var p = local % SHARE; p < params.parts; p += SHARE) {
    squared += squares[min(token0 + local / SHARE, tokens - 1u) * params.parts + p];
  }
  workgroupBarrier();
  keep_square(square_at(local / SHARE, local % SHARE), squared);
  workgroupBarrier();
}

// 1 / RMS of a token of the tile.
fn inverse_of(token: u32) -> f32 {
  var total = 0.0;
  for (var n = 0u; n < SHARE; n++) {
    total += kept_square(square_at(token, n));
  }
  return inverse_rms(total);
}

// sum: [token] of four rows. Each partial sum of squares covers 4 rows.
fn finish_tile(sums: array<vec4<f32>, 4>, row0: u32, token0: u32, local: u32) {
  let pair = pairing();
  let tokens = matmul_tokens();
  let mine_row = local % GROUPS;
  let mine_token = local / GROUPS;
  var sum = sums;
  //#if F16
  // Rows were normalized before rounding: values before the norms can exceed f16 in some models.
  //#else
  if (has(NORM_IN)) {
    gather_squares(token0, local);
    for (var t = 0u; t < 4u; t++) {
      sum[t] *= inverse_of(mine_token * 4u + t);
    }
  }
  //#endif
  // A copy: constant and dynamic indices into one array keep it out of registers.
  var results = sum;
  let across = 4u >> pair;
  for (var t = 0u; t < min(4u, params.loop_limit); t++) {
    let token = token0 + mine_token * 4u + t;
    let row = row0 + mine_row * across;
    if (token >= tokens || row >= out_rows()) {
      break;
    }
    var squared = 0.0;
    for (var r = 0u; r < min(across, out_rows() - row); r++) {
      var value = results[t][r << pair];
      if (pair != 0u) {
        value = activate(value) * results[t][2u * r + 1u];
      }
      value = write_result(token, row + r, value);
      squared = fma(value, value, squared);
    }
    if (has(NORM_OUT)) {
      squares[token * params.parts + row / 4u] = squared;
    }
  }
}
