// y[s, c] = one row for each sequence: the mean of its rows of x, the first, or the last. One thread for each column.
// The sample record contains the last row; its position is the number of rows.

struct Params {
  columns: u32,
  mode: u32,
}

const MEAN = 1u;
const FIRST = 2u;

@group(0) @binding(0) var<storage, read> samples: array<Sample>;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<uniform> params: Params;

//#include "lib/sample_record.wgsl"

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) global: vec3<u32>) {
  let c = global.x;
  let s = global.y;
  if (c >= params.columns) {
    return;
  }
  let last = samples[s].row;
  let first = last + 1u - samples[s].position;
  let begin = select(last, first, params.mode == MEAN || params.mode == FIRST);
  let end = select(last, first, params.mode == FIRST) + 1u;
  var sum = 0.0;
  for (var row = begin; row < end; row++) {
    sum += x[row * params.columns + c];
  }
  y[s * params.columns + c] = sum / f32(end - begin);
}
