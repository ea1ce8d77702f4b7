/** Ten typical naive kernels: correct, slow for one reason, which a profile must name at the line marked with `// here`. */
import type { KernelRegistration, ProfileHint } from '../../src/lab/types.ts';

export interface NaiveKernel {
  readonly name: string;
  readonly registration: KernelRegistration;
  readonly code: ProfileHint['code'];
  /** The remedy that the hint must name. */
  readonly remedy: RegExp;
  /** Columns of the live shape. */
  readonly columns?: number;
}

const normHeader = (element = 'f32') => `
struct Params { columns: u32, eps: f32 }
struct Step { tokens: u32 }
@group(0) @binding(0) var<storage, read> x: array<${element}>;
@group(0) @binding(1) var<storage, read> norm_weight: array<${element}>;
@group(0) @binding(2) var<storage, read_write> y: array<${element}>;
@group(0) @binding(3) var<uniform> params: Params;
@group(0) @binding(4) var<uniform> step: Step;
`;
const arguments_ = '@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32';

/** A norm of a row in a workgroup of `size` threads; `reduce` makes `total` of the `sum` of each thread. */
const norm = (size: number, declarations: string, reduce: string): KernelRegistration => ({
  name: 'naive',
  op: 'rms_norm',
  dispatch: { x: 'tokens' },
  source: `${normHeader('vec4<f32>')}
${declarations}
@compute @workgroup_size(${size})
fn main(${arguments_}) {
  let quads = params.columns / 4u;
  let start = group.x * quads;
  var sum = 0.0;
  for (var c = local; c < quads; c += ${size}u) {
    let four = x[start + c];
    sum += dot(four, four);
  }
  ${reduce}
  let factor = inverseSqrt(total / f32(params.columns) + params.eps);
  for (var c = local; c < quads; c += ${size}u) {
    y[start + c] = x[start + c] * factor * norm_weight[c];
  }
}
`,
});

const matvecHeader = (quants = 'vec4<u32>') => `
struct Params { rows: u32, blocks: u32, x_stride: u32, y_stride: u32, y_offset: u32, has_bias: u32, eps: f32, scale: f32 }
struct Step { tokens: u32 }
@group(0) @binding(0) var<storage, read> quants: array<${quants}>;
@group(0) @binding(1) var<storage, read> scales: array<u32>;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;
@group(0) @binding(4) var<uniform> params: Params;
@group(0) @binding(5) var<uniform> step: Step;
@group(0) @binding(6) var<storage, read> bias: array<f32>;
fn block_scale(block: u32) -> f32 { return unpack2x16float(scales[block / 2u])[block % 2u]; }
fn write_result(row: u32, sum: f32) {
  var value = sum;
  if (params.has_bias != 0u) { value += bias[row]; }
  y[params.y_offset + row] = value * params.scale;
}
`;
const matvec = (source: string, dispatch: string, quants?: string): KernelRegistration => ({
  name: 'naive',
  op: 'matvec',
  dispatch: { x: dispatch },
  dtypes: ['q8_0'],
  source: `${matvecHeader(quants)}${source}`,
});

/** The sum of a block of 32 columns, from whole words. */
const blockSum = `
fn block_sum(block: u32, at: u32) -> f32 {
  var sum = 0.0;
  for (var half = 0u; half < 2u; half += 1u) {
    let words = quants[2u * block + half];
    for (var n = 0u; n < 4u; n += 1u) {
      sum += dot(vec4<f32>(unpack4xI8(words[n])), x[8u * at + 4u * half + n]);
    }
  }
  return sum * block_scale(block);
}
`;

export const naiveKernels: readonly NaiveKernel[] = [
  {
    name: 'a row in each thread: neighboring lanes read different rows',
    code: 'uncoalesced',
    remedy: /let neighboring lanes read neighboring elements/,
    registration: matvec(
      `
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let row = id.x;
  if (row >= params.rows) { return; }
  var sum = 0.0;
  for (var at = 0u; at < params.blocks; at += 1u) {
    let block = row * params.blocks + at;
    for (var half = 0u; half < 2u; half += 1u) {
      let words = quants[2u * block + half]; // here
      for (var n = 0u; n < 4u; n += 1u) {
        sum += dot(vec4<f32>(unpack4xI8(words[n])), x[8u * at + 4u * half + n]) * block_scale(block);
      }
    }
  }
  write_result(row, sum);
}
`,
      'ceil(rows / 64)',
    ),
  },
  {
    name: 'partial sums a row of banks apart',
    code: 'bank_conflict',
    remedy: /pad each row by an element/,
    registration: norm(
      64,
      'var<workgroup> sums: array<f32, 2048>;',
      `sums[local * 32u] = sum; // here
  workgroupBarrier();
  var total = 0.0;
  for (var n = 0u; n < 64u; n += 1u) { total += sums[n * 32u]; }`,
    ),
  },
  {
    name: 'one row in each workgroup',
    code: 'read_by_every_workgroup',
    remedy: /compute several rows in a workgroup/,
    registration: matvec(
      `
var<workgroup> sums: array<f32, 64>;
@compute @workgroup_size(64)
fn main(${arguments_}) {
  let row = group.x;
  var sum = 0.0;
  for (var quad = local; quad < 8u * params.blocks; quad += 64u) {
    let block = row * params.blocks + quad / 8u;
    let word = quants[2u * block + (quad / 4u) % 2u][quad % 4u];
    sum += dot(vec4<f32>(unpack4xI8(word)), x[quad]) * block_scale(block); // here
  }
  sums[local] = sum;
  workgroupBarrier();
  if (local > 0u) { return; }
  var total = 0.0;
  for (var n = 0u; n < 64u; n += 1u) { total += sums[n]; }
  write_result(row, total);
}
`,
      'rows',
    ),
  },
  {
    name: 'loads of single numbers',
    code: 'narrow_loads',
    remedy: /array<vec4<f32>> and read 16 bytes at once/,
    registration: {
      name: 'naive',
      op: 'rms_norm',
      dispatch: { x: 'tokens' },
      source: `${normHeader()}
var<workgroup> sums: array<f32, 64>;
@compute @workgroup_size(64)
fn main(${arguments_}) {
  let start = group.x * params.columns;
  var sum = 0.0;
  for (var c = local; c < params.columns; c += 64u) {
    let value = x[start + c]; // here
    sum += value * value;
  }
  sums[local] = sum;
  workgroupBarrier();
  var total = 0.0;
  for (var n = 0u; n < 64u; n += 1u) { total += sums[n]; }
  let factor = inverseSqrt(total / f32(params.columns) + params.eps);
  for (var c = local; c < params.columns; c += 64u) {
    y[start + c] = x[start + c] * factor * norm_weight[c];
  }
}
`,
    },
  },
  {
    name: 'a barrier for each halving of a sum',
    code: 'barriers',
    remedy: /subgroupAdd/,
    registration: norm(
      256,
      'var<workgroup> sums: array<f32, 256>;',
      `sums[local] = sum;
  workgroupBarrier();
  for (var half = 128u; half > 0u; half /= 2u) {
    if (local < half) { sums[local] += sums[local + half]; }
    workgroupBarrier(); // here
  }
  let total = sums[0];`,
    ),
  },
  {
    name: 'a tile of f32 where f16 serves',
    code: 'f32_tile',
    remedy: /half the memory/,
    registration: matvec(
      `
var<workgroup> tile: array<vec4<f32>, 512>; // here
@compute @workgroup_size(64)
fn main(${arguments_}) {
  let row = group.x * 64u + local;
  var sum = 0.0;
  for (var first = 0u; first < 8u * params.blocks; first += 512u) {
    workgroupBarrier();
    for (var n = local; n < min(512u, 8u * params.blocks - first); n += 64u) { tile[n] = x[first + n]; }
    workgroupBarrier();
    if (row < params.rows) {
      for (var n = 0u; n < min(512u, 8u * params.blocks - first); n += 1u) {
        let quad = first + n;
        let block = row * params.blocks + quad / 8u;
        let word = quants[2u * block + (quad / 4u) % 2u][quad % 4u];
        sum += dot(vec4<f32>(unpack4xI8(word)), tile[n]) * block_scale(block);
      }
    }
  }
  if (row < params.rows) { write_result(row, sum); }
}
`,
      'ceil(rows / 64)',
    ),
  },
  {
    name: 'activations that are read again for every row',
    code: 'repeated_reads',
    remedy: /keep it in registers for several rows/,
    registration: matvec(
      `${blockSum.replace('x[8u * at + 4u * half + n]);', 'x[8u * at + 4u * half + n]); // here')}
@compute @workgroup_size(64)
fn main(${arguments_}) {
  // Each thread computes four rows, one after the other.
  for (var n = 0u; n < 4u; n += 1u) {
    let row = 256u * group.x + 4u * local + n;
    if (row < params.rows) {
      var sum = 0.0;
      for (var at = 0u; at < params.blocks; at += 1u) { sum += block_sum(row * params.blocks + at, at); }
      write_result(row, sum);
    }
  }
}
`,
      'ceil(rows / 256)',
    ),
  },
  {
    name: 'a tail in which most lanes have nothing to do',
    code: 'inactive_lanes',
    remedy: /the same number of turns/,
    columns: 1056,
    registration: matvec(
      `${blockSum.replace('x[8u * at + 4u * half + n]);', 'x[8u * at + 4u * half + n]); // here')}
var<workgroup> sums: array<f32, 64>;
@compute @workgroup_size(64)
fn main(${arguments_}) {
  let row = group.x;
  var sum = 0.0;
  for (var at = local; at < params.blocks; at += 64u) { sum += block_sum(row * params.blocks + at, at); }
  sums[local] = sum;
  workgroupBarrier();
  if (local > 0u) { return; }
  var total = 0.0;
  for (var n = 0u; n < 64u; n += 1u) { total += sums[n]; }
  write_result(row, total);
}
`,
      'rows',
    ),
  },
  {
    name: 'workgroups of a thousand threads',
    code: 'large_workgroup',
    remedy: /use 64 to 256 threads/,
    registration: norm(
      1024,
      'var<workgroup> sums: array<f32, 1024>;',
      `sums[local] = sum;
  workgroupBarrier();
  var total = 0.0;
  for (var n = 0u; n < 1024u; n += 1u) { total += sums[n]; }`,
    ),
  },
  {
    name: 'weights that are unpacked one by one',
    code: 'scalar_dequantization',
    remedy: /take all of its weights from registers/,
    registration: matvec(
      `
var<workgroup> sums: array<f32, 64>;
@compute @workgroup_size(64)
fn main(${arguments_}) {
  let row = group.x;
  var sum = 0.0;
  for (var at = local; at < params.blocks; at += 64u) {
    let block = row * params.blocks + at;
    for (var c = 0u; c < 32u; c += 1u) {
      let word = quants[8u * block + c / 4u]; // here
      let weight = f32(extractBits(i32(word), 8u * (c % 4u), 8u));
      sum += weight * x[8u * at + c / 4u][c % 4u] * block_scale(block);
    }
  }
  sums[local] = sum;
  workgroupBarrier();
  if (local > 0u) { return; }
  var total = 0.0;
  for (var n = 0u; n < 64u; n += 1u) { total += sums[n]; }
  write_result(row, total);
}
`,
      'rows',
      'u32',
    ),
  },
];

/** Line of the marker, from 1; 1 without one. */
export const markedLine = (source: string): number =>
  Math.max(1, source.split('\n').findIndex((line) => line.includes('// here')) + 1);
