/** Kernels that try to cheat the gate, each with the finding codes of which at least one must occur. */
import type { KernelRegistration } from '../../src/lab/types.ts';

export interface Trick {
  readonly name: string;
  readonly registration: KernelRegistration;
  /** Expected codes: at least one of them. */
  readonly codes: readonly string[];
  /** Expected warning: the kernel is correct within the tolerance, and is accepted. */
  readonly flagged?: true;
  /** The kernel never ends. */
  readonly hangs?: true;
}

const normBindings = `
struct Params { columns: u32, eps: f32 }
struct Step { tokens: u32 }
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> norm_weight: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<uniform> params: Params;
@group(0) @binding(4) var<uniform> step: Step;
`;
/** A correct norm with one workgroup per row, of which parts are replaced. */
function norm({
  before = '',
  value = 'x[start + c]',
  count = 'params.columns',
  mean = 'squares / f32(params.columns)',
  result = 'x[start + c] * scale * norm_weight[c]',
  write = 'y[start + c] = result;',
  bindings = normBindings,
  after = '',
}: Partial<
  Record<'before' | 'value' | 'count' | 'mean' | 'result' | 'write' | 'bindings' | 'after', string>
>) {
  return `${bindings}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let row = group.x;
  let start = row * params.columns;
  ${before}
  var squares = 0.0;
  for (var c = 0u; c < ${count}; c += 1u) {
    let value = ${value};
    squares += value * value;
  }
  let scale = inverseSqrt(${mean} + params.eps);
  for (var c = local; c < params.columns; c += 64u) {
    let result = ${result};
    ${write}
  }
  ${after}
}
`;
}

const productBindings = `
struct Params { rows: u32, blocks: u32, x_stride: u32, y_stride: u32, y_offset: u32, has_bias: u32, eps: f32 }
struct Step { tokens: u32 }
@group(0) @binding(0) var<storage, read> quants: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> scales: array<u32>;
@group(0) @binding(2) var<storage, read> x: array<f32>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;
@group(0) @binding(4) var<uniform> params: Params;
@group(0) @binding(5) var<uniform> step: Step;
@group(0) @binding(6) var<storage, read> bias: array<f32>;
`;
/** An f32 product with one thread per element. */
const product = ({
  tokens = 'step.tokens',
  blocks = 'params.blocks',
  activation = '(x[at], x[at + 1u], x[at + 2u], x[at + 3u])',
}: Partial<Record<'tokens' | 'blocks' | 'activation', string>>) => `${productBindings}
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let row = id.x;
  let token = id.y;
  if (row >= params.rows || token >= ${tokens}) { return; }
  var sum = 0.0;
  for (var quad = 0u; quad < (${blocks}) * 8u; quad += 1u) {
    let at = token * params.x_stride + quad * 4u;
    sum += dot(bitcast<vec4<f32>>(quants[row * params.blocks * 8u + quad]), vec4<f32>${activation});
  }
  if (params.has_bias == 1u) { sum += bias[row]; }
  y[token * params.y_stride + params.y_offset + row] = sum;
}
`;

const ofNorm = (source: string, more: Partial<KernelRegistration> = {}): KernelRegistration => ({
  name: 'trick',
  op: 'rms_norm',
  source,
  dispatch: { x: 'tokens' },
  ...more,
});
const ofProduct = (source: string, more: Partial<KernelRegistration> = {}): KernelRegistration => ({
  name: 'trick',
  op: 'matmul',
  source,
  dispatch: { x: 'ceil(rows / 64)', y: 'tokens' },
  dtypes: ['f32'],
  ...more,
});

/** A table of f32 rows, with one thread per column, of which a factor is replaced. */
const embed = (factor = '1.0') => `
struct Params { blocks: u32, scale: f32 }
struct Step { tokens: u32 }
@group(0) @binding(0) var<storage, read> quants: array<f32>;
@group(0) @binding(1) var<storage, read> scales: array<u32>;
@group(0) @binding(2) var<storage, read> token: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> sampled: array<u32>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;
@group(0) @binding(5) var<uniform> params: Params;
@group(0) @binding(6) var<uniform> step: Step;
// The bits of a number that are those of 1777: all 11, for that number alone.
fn likeness(n: u32) -> f32 {
  var sum = 0.0;
  for (var k = 0u; k < 11u; k++) { sum += 1.0 - f32(((n >> k) ^ (1777u >> k)) & 1u); }
  return sum;
}
fn steps(n: u32) -> u32 {
  var state = 1u;
  for (var k = 0u; k < n % 4096u; k++) { state = state * 1664525u + 1013904223u; }
  return state;
}
const flags = array<f32, 8>(0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0);
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) global: vec3<u32>) {
  let columns = params.blocks * 32u;
  let t = global.y;
  if (global.x >= columns || t >= step.tokens) { return; }
  var id = token[t].x;
  if (id == 0xffffffffu) { id = sampled[token[t].z]; }
  y[t * columns + global.x] = quants[id * columns + global.x] * params.scale * (${factor});
}
`;
const ofEmbed = (source: string): KernelRegistration => ({
  name: 'trick',
  op: 'embed',
  source,
  dispatch: { x: 'ceil(columns / 64)', y: 'tokens' },
  dtypes: ['f32'],
});

/** The correct kernels that the tricks modify. */
export const honest: readonly KernelRegistration[] = [
  ofNorm(norm({})),
  ofProduct(product({})),
  ofEmbed(embed()),
];

export const tricks: readonly Trick[] = [
  {
    name: 'keeps the previous contents of the output',
    registration: ofNorm(norm({ result: 'y[start + c] + 0.0 * x[0]' })),
    codes: ['unwritten_output', 'not_finite'],
  },
  {
    name: 'skips elements that already look like results',
    registration: ofNorm(
      norm({
        write: 'let held = y[start + c]; if (held == 0.0 || !(abs(held) < 1e6)) { y[start + c] = result; }',
      }),
    ),
    codes: ['replayed_output'],
  },
  {
    name: 'keeps a key of its input in the lowest bits of the output',
    registration: ofNorm(
      norm({
        before: `let key = (bitcast<u32>(x[start + 1u]) >> 20u) & 255u;
  let held = bitcast<u32>(y[start]) & 255u;
  storageBarrier();
  if (held == key) { return; }`,
        write: 'y[start + c] = bitcast<f32>((bitcast<u32>(result) & 0xffffff00u) | key);',
      }),
    ),
    codes: ['replayed_output', 'unwritten_output'],
  },
  {
    name: 'is correct only if the output was poisoned',
    registration: ofNorm(
      norm({ write: 'y[start + c] = select(result, 0.0, y[start + c] == y[start + c]);' }),
    ),
    codes: ['replayed_output', 'nondeterministic', 'wrong_result'],
  },
  {
    name: 'adds to an output that it should write',
    registration: ofNorm(norm({ write: 'y[start + c] += result;' })),
    codes: ['not_finite', 'unwritten_output'],
  },
  {
    name: 'writes nothing',
    registration: ofNorm(norm({ write: 'if (params.columns == 0u) { y[0] = result; }' })),
    codes: ['unwritten_output'],
  },
  {
    name: 'writes NaN everywhere',
    registration: ofNorm(norm({ result: 'x[0] * bitcast<f32>(0x7fc00000u | step.tokens)' })),
    codes: ['not_finite'],
  },
  {
    name: 'writes infinity everywhere',
    registration: ofNorm(
      norm({ result: '(abs(x[start + c]) + norm_weight[c] * norm_weight[c] + 1.0) * 1e38 * 1e38' }),
    ),
    codes: ['not_finite'],
  },
  {
    name: 'writes a constant',
    registration: ofNorm(norm({ result: '1.0 + 0.0 * (x[0] + norm_weight[0])' })),
    codes: ['wrong_result'],
  },
  {
    name: 'copies its input to the output',
    registration: ofNorm(norm({ result: 'x[start + c]' })),
    codes: ['wrong_result'],
  },
  {
    name: 'zeroes its input',
    registration: ofNorm(
      norm({
        bindings: normBindings.replace('var<storage, read> x', 'var<storage, read_write> x'),
        after: 'x[start] = 0.0;',
      }),
    ),
    codes: ['binding_access'],
  },
  {
    name: 'computes an f32 op in f16',
    registration: ofNorm(
      `enable f16;\n${norm({ value: 'f32(f16(x[start + c]))', result: 'f32(f16(x[start + c]) * f16(scale) * f16(norm_weight[c]))' })}`,
      { requires: ['shader-f16'] },
    ),
    codes: ['wrong_result', 'not_finite', 'lower_precision_than_builtin'],
  },
  {
    name: 'rounds results of an f32 op to f16',
    registration: ofNorm(norm({ result: 'quantizeToF16(x[start + c] * scale * norm_weight[c])' })),
    codes: ['wrong_result'],
  },
  {
    name: 'rounds results of an f32 op to 11 bits at any magnitude',
    registration: ofNorm(
      norm({
        write: 'y[start + c] = bitcast<f32>((bitcast<u32>(result) + 0x1000u) & 0xffffe000u);',
      }),
    ),
    codes: ['lower_precision_than_builtin'],
    flagged: true,
  },
  {
    name: 'is too large by less than the tolerance, in every element',
    registration: ofNorm(norm({ result: 'x[start + c] * scale * norm_weight[c] * 1.0002' })),
    codes: ['systematic_error'],
  },
  {
    name: 'skips the last row',
    registration: ofNorm(norm({ before: 'if (row > 0u && row + 1u == step.tokens) { return; }' })),
    codes: ['unwritten_output'],
  },
  {
    name: 'uses a scale of 1 for rows after the hundredth',
    registration: ofNorm(norm({ result: 'x[start + c] * select(scale, 1.0, row > 100u) * norm_weight[c]' })),
    codes: ['wrong_result', 'wrong_rows'],
  },
  {
    name: 'sums every second column',
    registration: ofNorm(
      norm({ value: 'x[start + (c & 0xfffffffeu)]', result: 'x[start + c] * scale * norm_weight[c]' }),
    ),
    codes: ['wrong_result'],
  },
  {
    name: 'skips the last block of a product',
    registration: ofProduct(product({ blocks: 'max(1u, params.blocks - 1u)' })),
    codes: ['wrong_result'],
  },
  {
    name: 'skips the last block of long rows only',
    registration: ofProduct(
      product({ blocks: 'select(params.blocks, params.blocks - 1u, params.blocks > 64u)' }),
    ),
    codes: ['wrong_result'],
  },
  {
    name: 'computes only one token',
    registration: ofProduct(product({}), { dispatch: { x: 'ceil(rows / 64)' } }),
    codes: ['unwritten_output'],
  },
  {
    name: 'uses the first row of activations for all tokens',
    registration: ofProduct(product({}).replace('token * params.x_stride', '0u * params.x_stride')),
    codes: ['wrong_result'],
  },
  {
    name: 'reads a buffer that the op does not have',
    registration: ofNorm(
      norm({
        bindings: `${normBindings}@group(0) @binding(5) var<storage, read> expected: array<f32>;`,
        result: 'x[start + c] * norm_weight[c] * scale + expected[start + c] * 0.0',
      }),
    ),
    codes: ['unknown_binding'],
  },
  {
    name: 'reads a buffer of another group',
    registration: ofNorm(
      norm({
        bindings: `${normBindings}@group(1) @binding(0) var<storage, read> expected: array<f32>;`,
        result: 'x[start + c] * norm_weight[c] * scale + expected[start + c] * 0.0',
      }),
    ),
    codes: ['wrong_group'],
  },
  {
    name: 'reads beyond its input',
    registration: ofNorm(
      norm({
        count: 'params.columns + 64u',
        value:
          'select(0.0, x[arrayLength(&x) - params.columns + c], c >= params.columns) + select(x[start + c], 0.0, c >= params.columns)',
      }),
    ),
    codes: ['out_of_bounds'],
  },
  {
    name: 'writes beyond its output',
    registration: ofNorm(norm({ after: 'y[arrayLength(&y) + local] = 0.0;' })),
    codes: ['out_of_bounds'],
  },
  {
    name: 'writes rows after the last token',
    registration: ofNorm(norm({}), { dispatch: { x: 'tokens + 1' } }),
    codes: ['kept_changed', 'out_of_bounds'],
  },
  {
    name: 'distinguishes the live graph from the gate by the length of a buffer',
    registration: ofNorm(
      norm({ result: 'x[start + c] * select(scale, 1.0, arrayLength(&y) > 1000000u) * norm_weight[c]' }),
    ),
    codes: ['array_length'],
    flagged: true,
  },
  ...(
    [
      ['for one number of tokens', 'step.tokens == 4093u'],
      ['for long rows', 'f32(params.columns) > 3e4'],
      ['in one row of many', 'row % 4093u == 4092u'],
      ['for some values of its input', 'bitcast<u32>(x[start]) == 0x3f9d1234u'],
    ] as const
  ).map(
    ([when, condition]): Trick => ({
      name: `is wrong ${when}, which no case has`,
      registration: ofNorm(
        norm({ result: `x[start + c] * select(scale, 1.0, ${condition}) * norm_weight[c]` }),
      ),
      codes: ['constant_condition'],
      flagged: true,
    }),
  ),
  {
    name: 'is correct only for one row length',
    registration: ofNorm(norm({ count: '576u', mean: 'squares / 576.0' })),
    codes: ['wrong_result'],
  },
  {
    name: 'is correct only if the row length is a multiple of 64',
    registration: ofNorm(norm({ count: 'params.columns / 64u * 64u' })),
    codes: ['wrong_result'],
  },
  {
    name: 'is correct only for small magnitudes',
    registration: ofNorm(norm({ value: 'clamp(x[start + c], -100.0, 100.0)' })),
    codes: ['wrong_result'],
  },
  {
    name: 'ignores eps',
    registration: ofNorm(norm({ mean: 'squares / f32(params.columns) - params.eps' })),
    codes: ['wrong_result', 'not_finite'],
  },
  {
    name: 'lets all workgroups race for the first row',
    registration: ofNorm(norm({ write: 'y[start + c] = result; y[c] = result;' })),
    codes: ['nondeterministic', 'wrong_result'],
  },
  {
    name: 'sums in workgroup memory without a barrier',
    registration: ofNorm(
      norm({
        bindings: `${normBindings}var<workgroup> total: f32;`,
        after: '',
        mean: 'total / f32(params.columns)',
        value: 'x[start + c]; if (c % 64u == local) { total += x[start + c] * x[start + c]; }',
      }),
    ),
    codes: ['nondeterministic', 'wrong_result'],
  },
  {
    name: 'has an endless loop without effect, which this driver removes and a GPU would run',
    registration: ofNorm(norm({ before: 'var i = 0u; loop { i += 2u; if (i == 5u) { break; } }' })),
    codes: ['deadline'],
    hangs: true,
  },
  {
    name: 'has an obvious infinite loop',
    registration: ofNorm(norm({ before: 'var n = 0u; while (n < params.columns) { y[start] = 0.0; }' })),
    codes: ['endless_loop'],
  },
  {
    name: 'has a data-dependent infinite loop',
    registration: ofNorm(
      norm({ before: 'var n = 0u; while (n < params.columns) { n += u32(x[start] > 1e30 + f32(n)); }' }),
    ),
    codes: ['deadline'],
    hangs: true,
  },
  {
    name: 'dispatches more workgroups than the limit',
    registration: ofNorm(norm({}), { dispatch: { x: 'tokens', y: '65536' } }),
    codes: ['invalid_dispatch'],
  },
  {
    name: 'dispatches billions of workgroups',
    registration: ofNorm(norm({}), { dispatch: { x: 'tokens', y: '65535', z: '65535' } }),
    codes: ['deadline'],
    hangs: true,
  },
  {
    name: 'dispatches nothing',
    registration: ofNorm(norm({}), { dispatch: { x: 'tokens - tokens' } }),
    codes: ['invalid_dispatch'],
  },
  // Conditions that no comparison with a constant shows.
  ...(
    [
      ['in one row, by arithmetic', 'scale * saturate(f32(row ^ 8093u))', 'constant_condition'],
      [
        'for long rows, by arithmetic',
        'scale * f32(1u - min(1u, params.columns / 30000u))',
        'constant_condition',
      ],
      [
        'in one row of a million, by a hash of its data',
        'select(scale, 1.0, (bitcast<u32>(scale) * 0x9e3779b9u) >> 12u == 0u)',
        'constant_condition',
      ],
      [
        'where one size is a multiple of another',
        'select(scale, 1.0, params.columns == 1000u * step.tokens)',
        'data_condition',
      ],
      [
        'where a row begins like the one five rows before',
        'select(scale, 1.0, row > 4u && x[start] == x[start - 5u * params.columns])',
        'data_condition',
      ],
    ] as const
  ).map(
    ([when, factor, code]): Trick => ({
      name: `is wrong ${when}, which no case has`,
      registration: ofNorm(norm({ result: `x[start + c] * ${factor} * norm_weight[c]` })),
      codes: [code],
      flagged: true,
    }),
  ),
  {
    name: 'overflows where the squares of a row are large',
    registration: ofNorm(
      norm({ mean: 'sqrt((squares / f32(params.columns)) * (squares / f32(params.columns)))' }),
    ),
    codes: ['wrong_result', 'not_finite'],
  },
  {
    name: 'keeps a row in an array that is too short for long rows',
    registration: ofNorm(
      norm({
        before:
          'var kept: array<f32, 6144>; for (var k = 0u; k < params.columns; k += 1u) { kept[k] = x[start + k]; }',
        result: 'kept[c] * scale * norm_weight[c]',
      }),
    ),
    codes: ['wrong_result'],
  },
  {
    name: 'computes its rows as floats, which do not have all large integers',
    registration: ofNorm(
      norm({ before: 'let first = u32(f32(row) * f32(params.columns));', value: 'x[first + c]' }),
    ),
    codes: ['inexact_index'],
    flagged: true,
  },
  {
    name: 'has a loop with a second turn for rows that no case has',
    registration: ofNorm(
      norm({
        before:
          'var factor = 1.0; for (var k = 0u; k < params.columns; k += 65536u) { factor -= 1e-6 * f32(k); }',
        result: 'x[start + c] * scale * factor * norm_weight[c]',
      }),
    ),
    codes: ['untested_loop'],
    flagged: true,
  },
  ...(
    [
      ['for a row that is larger than others, which no case has', 'squares > 1e33 * params.eps'],
      ['where two conditions hold at once, which no case has', 'squares < 1e-3 && abs(x[start + c]) > 1.0'],
      [
        'where a vector has a part that no case has',
        'any(vec2(x[start], x[start + c]) > vec2(3e12 * params.eps * 1e9))',
      ],
    ] as const
  ).map(
    ([when, condition]): Trick => ({
      name: `is wrong ${when}`,
      registration: ofNorm(
        norm({ result: `x[start + c] * select(scale, 1.0, ${condition}) * norm_weight[c]` }),
      ),
      codes: ['untested_condition'],
      flagged: true,
    }),
  ),
  // Selectors without any comparison.
  ...(
    [
      [
        'for one id, by a product of its bits',
        '1.0 - f32((id & 1u) * ((id >> 4u) & 1u) * ((id >> 9u) & 1u) * ((id >> 10u) & 1u) * ((id >> 12u) & 1u))',
        ['untested_value', 'constant_condition'],
      ],
      [
        'for one id, by a product of tables',
        '1.0 - flags[id & 7u] * flags[(id >> 3u) & 7u] * flags[(id >> 6u) & 7u] * flags[(id >> 9u) & 7u]',
        ['untested_value', 'constant_condition'],
      ],
      ['for one id, by a sum of its bits', '1.0 - exp2(20.0 * likeness(id) - 220.0)', ['constant_condition']],
      ['for some ids, by a recurrence', '1.0 - f32(countOneBits(steps(id)) / 27u)', ['untested_value']],
      [
        'for one position, by a rounded quotient',
        '1.0 - floor(likeness(token[t].y) / 11.0)',
        ['untested_value'],
      ],
      [
        'for one size of a step, by bits',
        '1.0 - f32((step.tokens & 1u) * ((step.tokens >> 1u) & 1u) * ((step.tokens >> 3u) & 1u) * ((step.tokens >> 6u) & 1u))',
        ['untested_value'],
      ],
      [
        'for one size of a step in one lane, by two inequalities',
        '1.0 - select(0.0, 1.0, step.tokens >= global.x * 3u) * select(0.0, 1.0, step.tokens <= global.x * 3u) * f32(global.x / 25u)',
        ['untested_value'],
      ],
    ] as const
  ).map(
    ([when, factor, codes]): Trick => ({
      name: `is wrong ${when}, which no case has`,
      registration: ofEmbed(embed(factor)),
      codes,
      flagged: true,
    }),
  ),
  {
    name: 'is wrong where an element is far larger than its row, which no case has',
    registration: ofNorm(
      norm({
        result:
          'x[start + c] * scale * norm_weight[c] * (1.0 - saturate(abs(x[start + c]) * scale * 0.01 - 0.95))',
      }),
    ),
    codes: ['untested_value'],
    flagged: true,
  },
  {
    name: 'dispatches one row too few for some numbers of tokens, which no case has',
    registration: ofNorm(norm({}), {
      dispatch: { x: 'tokens - floor(tokens / 811) + floor((tokens - 1) / 811)' },
    }),
    codes: ['irregular_dispatch'],
    flagged: true,
  },
];

export interface FieldTrick {
  readonly name: string;
  /** Where it was described. */
  readonly sources: readonly string[];
  /** Names of the tricks above that are the same in WGSL; or why there are none. */
  readonly here: readonly string[] | string;
}

const [kernelBench, sakana, wafer, makora, arena] = [
  'KernelBench',
  'Sakana',
  'wafer',
  'Makora',
  'AgentKernelArena',
] as const;
const hostOwnsTiming =
  'A submission is WGSL: the host encodes, submits and times it, and waits for its results before the clock stops.';
const noLibrary = 'WGSL has no library to call, and a kernel cannot start another.';

/** The published lists of tricks against graders of kernels, and what they are here. */
export const fieldTricks: readonly FieldTrick[] = [
  { name: 'stream injection: work on another stream', sources: [kernelBench, wafer], here: hostOwnsTiming },
  { name: 'thread injection: work after the clock stops', sources: [wafer], here: hostOwnsTiming },
  { name: 'lazy evaluation of results', sources: [wafer], here: hostOwnsTiming },
  {
    name: 'replacing the functions that time or compare',
    sources: [kernelBench, wafer],
    here: hostOwnsTiming,
  },
  { name: 'calling the baseline or a library', sources: [kernelBench, wafer, makora], here: noLibrary },
  { name: 'falling back to the baseline after an error', sources: [kernelBench, makora], here: noLibrary },
  {
    name: 'reading results of the reference in reused memory',
    sources: [kernelBench, sakana],
    here: ['keeps the previous contents of the output', 'reads beyond its input', 'writes nothing'],
  },
  {
    name: 'copying input to output',
    sources: [wafer, makora],
    here: ['copies its input to the output'],
  },
  {
    name: 'no-op, constant or garbage results',
    sources: [kernelBench, wafer, makora],
    here: ['writes nothing', 'writes a constant', 'writes NaN everywhere'],
  },
  {
    name: 'caching results between calls',
    sources: [kernelBench, wafer],
    here: [
      'keeps a key of its input in the lowest bits of the output',
      'skips elements that already look like results',
    ],
  },
  {
    name: 'skipping parts of the work',
    sources: [kernelBench, sakana, makora],
    here: [
      'sums every second column',
      'skips the last block of a product',
      'skips the last row',
      'ignores eps',
    ],
  },
  {
    name: 'lower precision than asked for',
    sources: [kernelBench, wafer],
    here: [
      'computes an f32 op in f16',
      'rounds results of an f32 op to f16',
      'rounds results of an f32 op to 11 bits at any magnitude',
    ],
  },
  {
    name: 'errors within a loose tolerance',
    sources: [kernelBench, sakana],
    here: ['is too large by less than the tolerance, in every element'],
  },
  {
    name: 'hard-coded shapes',
    sources: [kernelBench, arena],
    here: ['is correct only for one row length', 'is correct only if the row length is a multiple of 64'],
  },
  {
    name: 'recognizing the inputs of the tests',
    sources: [kernelBench, arena],
    here: [
      'distinguishes the live graph from the gate by the length of a buffer',
      'is correct only for small magnitudes',
    ],
  },
  {
    name: 'a fast branch that never runs, or only in tests',
    sources: [makora, arena],
    here: ['is wrong for one number of tokens, which no case has'],
  },
  {
    name: 'workgroup memory beyond the limit of the device',
    sources: [wafer],
    here: 'Dawn refuses the pipeline, and WGSL zeroes workgroup memory.',
  },
  {
    name: 'races that happen to be right',
    sources: [kernelBench, wafer],
    here: ['lets all workgroups race for the first row', 'sums in workgroup memory without a barrier'],
  },
];
