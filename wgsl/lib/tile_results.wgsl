// What becomes of the 4 x 4 sums that each of 16 x 16 threads of a tile holds.
// The kernel gives THREADS words of workgroup memory for sums of squares: keep_square, kept_square.
// sum: [token] of four rows. Parts of squares are those of 4 rows.
fn finish_tile(sums: array<vec4<f32>, 4>, row0: u32, token0: u32, local: u32) {
  let pair = pairing();
  let tokens = matmul_tokens();
  let mine_row = local % GROUPS;
  let mine_token = local / GROUPS;
  var sum = sums;
  if (has(NORM_IN)) {
    // Four threads a token add up its parts.
    var squared = 0.0;
    for (var p = local % 4u; p < params.parts; p += 4u) {
      squared += squares[min(token0 + local / 4u, tokens - 1u) * params.parts + p];
    }
    workgroupBarrier();
    keep_square(local, squared);
    workgroupBarrier();
    for (var t = 0u; t < 4u; t++) {
      let at = (mine_token * 4u + t) * 4u;
      let total = (kept_square(at) + kept_square(at + 1u)) + (kept_square(at + 2u) + kept_square(at + 3u));
      sum[t] *= inverse_rms(total);
    }
  }
  // A copy: constant and dynamic indices into one array keep it out of registers.
  var results = sum;
  let across = 4u >> pair;
  for (var t = 0u; t < min(4u, params.many); t++) {
    let token = token0 + mine_token * 4u + t;
    let row = row0 + mine_row * across;
    if (token >= tokens || row >= out_rows()) {
      break;
    }
    var squared = 0.0;
    for (var r = 0u; r < min(across, out_rows() - row); r++) {
      var value = results[t][r << pair];
      if (pair != 0u) {
        value = silu(value) * results[t][2u * r + 1u];
      }
      value = write_result(token, row + r, value);
      squared = fma(value, value, squared);
    }
    if (has(NORM_OUT)) {
      squares[token * params.parts + row / 4u] = squared;
    }
  }
}
