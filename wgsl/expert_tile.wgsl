// y[pair, n] = sum over k of W[expert of pair, n, k] x[row of pair, k], modified by the flags: tiles of ROWS rows and
// COLS pairs of an expert in workgroup memory, a block of 32 columns at a time; each thread computes 4 x 4 results. For
// GPUs and prompts. Tiles are f32: f16 would change which experts the next layers select.

@group(0) @binding(3) var<storage, read> x: array<vec4<f32>>;

const ROW_GROUPS = ROWS / 4u;
const PAIR_GROUPS = COLS / 4u;
const THREADS = ROW_GROUPS * PAIR_GROUPS;
const ROW_TASKS = 2u * ROWS;
const TASKS = ROW_TASKS + 2u * COLS;

//#include "lib/expert_params.wgsl"
//#include "lib/weight_$FORMAT.wgsl"

// [column, row / 4] and [column, pair / 4], in the order of `spread`.
var<workgroup> weight_tile: array<vec4<f32>, 32u * ROW_GROUPS>;
var<workgroup> pair_tile: array<vec4<f32>, 32u * PAIR_GROUPS>;
// Rows of x.
var<workgroup> inputs: array<u32, COLS>;

// Place of a group of four in the columns of a quad. Adjacent threads store adjacent quads, which would lie in the same bank.
fn spread(four: u32, quad: u32) -> u32 {
  return four ^ quad;
}

@compute @workgroup_size(THREADS)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
) {
  let tile = tile_at(params.prompt_tiles_at, group.y);
  if (!is_here(tile)) {
    return;
  }
  count_work(tile, group.x, local);
  let row0 = group.x * ROWS;
  let mine_row = local % ROW_GROUPS;
  let mine_pair = local / ROW_GROUPS;
  for (var c = local; c < COLS; c += THREADS) {
    inputs[c] = input_of(pair_of(tile, c));
  }

  var sum = array<vec4<f32>, 4>(); // [pair] of four rows
  for (var b = 0u; b < params.blocks; b++) {
    workgroupBarrier();
    // Some threads load rows, others pairs: four of them, four columns each. Adjacent threads load adjacent quads.
    for (var task = local; task < TASKS; task += THREADS) {
      let quad = task % 8u;
      let is_row = task < ROW_TASKS;
      let four = select(task - ROW_TASKS, task, is_row) / 8u;
      var fetched = array<vec4<f32>, 4>();
      for (var r = 0u; r < 4u; r++) {
        if (is_row) {
          fetched[r] = load_quad(row_of(tile, row0 + four * 4u + r) * params.blocks + b, quad);
        } else {
          fetched[r] = x[(inputs[four * 4u + r] * params.blocks + b) * 8u + quad];
        }
      }
      // Store whole vectors: a store of one component can affect the others.
      for (var e = 0u; e < 4u; e++) {
        let column = vec4(fetched[0][e], fetched[1][e], fetched[2][e], fetched[3][e]);
        if (is_row) {
          weight_tile[(quad * 4u + e) * ROW_GROUPS + spread(four, quad)] = column;
        } else {
          pair_tile[(quad * 4u + e) * PAIR_GROUPS + spread(four, quad)] = column;
        }
      }
    }
    workgroupBarrier();
    for (var quad = 0u; quad < min(8u, params.loop_limit); quad++) {
      let row_at = quad * 4u * ROW_GROUPS + spread(mine_row, quad);
      let pair_at = quad * 4u * PAIR_GROUPS + spread(mine_pair, quad);
      //#unroll
      for (var e = 0u; e < 4u; e++) {
        let four_rows = weight_tile[row_at + e * ROW_GROUPS];
        let four_pairs = pair_tile[pair_at + e * PAIR_GROUPS];
        //#unroll
        for (var t = 0u; t < 4u; t++) {
          sum[t] = fma(four_rows, vec4(four_pairs[t]), sum[t]);
        }
      }
    }
  }
  // A copy: constant and dynamic indices into one array keep it out of registers.
  var results = sum;
  for (var t = 0u; t < min(4u, params.loop_limit); t++) {
    let c = mine_pair * 4u + t;
    if (c >= tile.count) {
      break;
    }
    let pair = pair_of(tile, c);
    let row = row0 + mine_row * 4u;
    for (var r = 0u; r < min(4u, params.rows - min(row, params.rows)); r++) {
      write_result(tile, pair, row + r, results[t][r]);
    }
  }
}
