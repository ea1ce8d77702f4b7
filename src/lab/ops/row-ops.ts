/** Ops that process each row independently: norms, residual sums, gated activation. */
import { activationCodes, contracts, type Contract } from '../../../kernels/contracts.ts';
import { gatedActivation as gatedActivationKernel } from '../../../kernels/gated-activation.ts';
import { type Activation, gatedActivation, rmsNorm } from '../../../kernels/reference/index.ts';
import { chooseNormAdd, normAdd as normAddKernel } from '../../../kernels/norm-add.ts';
import { chooseRmsNorm, rmsNorm as rmsNormKernel } from '../../../kernels/rms-norm.ts';
import type { Dims, ExpectedOutput, ParityCase, TensorData } from '../types.ts';
import { eraseStep } from './builtin.ts';
import {
  randomActivations,
  randomBetween,
  caseName,
  requireFloats,
  randomNormWeights,
  oddStepSize,
  relateRows,
  stepSizes,
  type CaseKind,
  type Magnitude,
  requireMember,
  stepDimsFor,
  contiguousRows,
  unreadFloats,
} from './case-generation.ts';
import { Random } from './random.ts';
import type { CaseOptions, LabOp } from './types.ts';

/** Shape of a case. Which optional members apply depends on the op. */
interface Shape {
  readonly kind: CaseKind;
  readonly tokens: number;
  readonly columns: number;
  readonly magnitude?: Magnitude;
  readonly spareRows?: number;
  /** Unused elements after each row. */
  readonly padding?: number;
  /** Number of heads that are normalized, and the offset of the first. */
  readonly count?: number;
  readonly offset?: number;
  readonly eps?: number;
  /** Activation of the gate. Default: silu. */
  readonly activation?: Activation;
}

const activationOf = (params: Readonly<Record<string, number>>): Activation =>
  params['activation'] === activationCodes.gelu_tanh ? 'gelu_tanh' : 'silu';

const contractOf = (op: string): Contract => contracts.get(op) as Contract;

function shapes(random: Random, op: string, { strict, live = [] }: CaseOptions): Shape[] {
  const randomShapes = (): Shape[] => [
    {
      kind: 'random',
      tokens: randomBetween(random, 2, 5),
      columns: 32 * randomBetween(random, 2, 6),
      count: 4,
    },
    {
      kind: 'ragged',
      tokens: randomBetween(random, 3, 7),
      columns: 4 * randomBetween(random, 5, 40),
      spareRows: 2,
      padding: 4 * randomBetween(random, 1, 5),
      count: randomBetween(random, 1, 5),
      offset: 4 * randomBetween(random, 1, 9),
    },
  ];
  const list: Shape[] = [
    ...randomShapes(),
    { kind: 'ragged', tokens: 2, columns: 4100, spareRows: 1, padding: 28, count: 1 },
    // Rows as long as those of large models, of any length, and of a full step.
    { kind: 'ragged', tokens: 2, columns: 4 * randomBetween(random, 1100, 4200), count: 1 },
    { kind: 'random', tokens: 1024, columns: 32, count: 1 },
    { kind: 'extreme', tokens: 3, columns: 128, magnitude: 'huge', count: 2 },
    {
      kind: 'extreme',
      tokens: 2,
      columns: 4 * randomBetween(random, 520, 600),
      magnitude: 'constant',
      count: 1,
    },
    { kind: 'ragged', tokens: 33, columns: 4 * randomBetween(random, 1, 3), count: 3, offset: 8 },
    { kind: 'extreme', tokens: 4, columns: 256, magnitude: 'large', count: 2 },
    { kind: 'extreme', tokens: 3, columns: 96, magnitude: 'small', count: 2 },
    { kind: 'one_row', tokens: 1, columns: 576, spareRows: 3, count: 9 },
    { kind: 'random', tokens: 130, columns: 64, count: 2 },
    // The row count of a full step, powers of two, and any others.
    { kind: 'ragged', tokens: 517, columns: 32, spareRows: 1, count: 1 },
    ...[8, 16, 64, oddStepSize, 256, ...stepSizes(random, 3)].map((tokens) => ({
      kind: 'random' as const,
      tokens,
      columns: 32,
      count: 1,
    })),
  ];
  if (strict) {
    for (let i = 0; i < 4; i++) list.push(...randomShapes());
    list.push(
      { kind: 'random', tokens: 70, columns: 1024, count: 2 },
      { kind: 'ragged', tokens: 3, columns: 16_388, padding: 4, count: 1 },
      { kind: 'extreme', tokens: 9, columns: 2048, magnitude: 'large', count: 1 },
    );
  }
  for (const { dims, params } of live) {
    const columns = requireMember(dims, op === 'head_norm' ? 'head_dim' : 'columns');
    const stride = params['y_stride'] ?? params['stride'];
    const count = dims['count'] ?? 1;
    const offset = params['offset'] ?? 0;
    const padding = stride === undefined ? 0 : stride - offset - count * columns;
    const eps = params['eps'] ?? 1e-5;
    const sizes = stepSizes(random);
    // One token, a few, and a size of any class.
    for (const tokens of [
      1,
      randomBetween(random, 3, 6),
      sizes[random.integerBelow(sizes.length)] as number,
    ]) {
      const common = {
        kind: 'live' as const,
        tokens,
        columns,
        padding: Math.max(0, padding),
        count,
        offset,
        eps,
      };
      list.push({ ...common, activation: activationOf(params) });
    }
  }
  if (op === 'gated_activation') {
    const activation = 'gelu_tanh';
    list.push(
      { kind: 'extreme', tokens: gateRanges.length, columns: 96, magnitude: 'constant' },
      {
        kind: 'ragged',
        tokens: 3,
        columns: 4 * randomBetween(random, 5, 40),
        spareRows: 1,
        padding: 8,
        activation,
      },
      { kind: 'extreme', tokens: 4, columns: 256, magnitude: 'large', activation },
      { kind: 'extreme', tokens: 3, columns: 96, magnitude: 'small', activation },
      { kind: 'one_row', tokens: 1, columns: 576, spareRows: 3, activation },
    );
  }
  return list.map((shape) => ({ eps: randomBetween(random, 1, 20) * 1e-6, ...shape }));
}

/** The parts that differ between the ops: case generation, oracle and built-in kernel. */
interface RowOp extends Pick<LabOp, 'oracle' | 'builtin'> {
  readonly op: string;
  readonly nameDims: readonly string[];
  readonly generate: (
    random: Random,
    shape: Shape,
  ) => { dims: Dims; params: Record<string, number>; tensors: Record<string, TensorData> };
}

const rowOp = ({ op, nameDims, generate, oracle, builtin }: RowOp): LabOp => ({
  contract: contractOf(op),
  cases(options) {
    const random = new Random(options.seed, op);
    return shapes(random, op, options).map((shape): ParityCase => {
      const generated = generate(random, shape);
      return { ...generated, name: caseName(shape.kind, generated.dims, nameDims) };
    });
  },
  sizedCase({ seed, dims }) {
    const generated = generate(new Random(seed, `sized ${op}`), {
      kind: 'live',
      tokens: requireMember(dims, 'tokens'),
      columns: requireMember(dims, op === 'head_norm' ? 'head_dim' : 'columns'),
      count: dims['count'] ?? 1,
    });
    return { ...generated, name: caseName('live', generated.dims, nameDims) };
  },
  oracle,
  builtin,
});

interface UsedRows {
  readonly tokens: number;
  readonly stride: number;
  readonly columns: number;
  readonly offset?: number;
}

const rowViews = (values: Float32Array, { tokens, stride, columns, offset = 0 }: UsedRows): Float32Array[] =>
  Array.from({ length: tokens }, (_, t) =>
    values.subarray(t * stride + offset, t * stride + offset + columns),
  );

/** Mask of preserved elements: all except `columns` elements from `offset` in each used row. */
function preservedExcept(length: number, { tokens, stride, columns, offset = 0 }: UsedRows): Uint8Array {
  const preserved = new Uint8Array(length).fill(1);
  for (let t = 0; t < tokens; t++) preserved.fill(0, t * stride + offset, t * stride + offset + columns);
  return preserved;
}

const norm = rowOp({
  op: 'rms_norm',
  nameDims: ['tokens', 'columns'],
  generate(random, { tokens, columns, magnitude, spareRows = 0, eps = 1e-5 }) {
    const x = unreadFloats(random, (tokens + spareRows) * columns);
    x.set(randomActivations(random, tokens, columns, { magnitude: magnitude ?? 'ordinary', spread: true }));
    return {
      dims: { tokens, columns },
      params: { columns, eps },
      tensors: { x, norm_weight: randomNormWeights(random, columns) },
    };
  },
  oracle({ dims, params, tensors }) {
    const x = requireFloats(tensors, 'x');
    const [tokens, columns] = [requireMember(dims, 'tokens'), requireMember(dims, 'columns')];
    const values = new Float64Array(x.length);
    const shape = { rows: tokens, cols: columns, eps: Math.fround(requireMember(params, 'eps')) };
    values.set(rmsNorm(x.subarray(0, tokens * columns), requireFloats(tensors, 'norm_weight'), shape));
    return { y: { values, preserved: preservedExcept(x.length, { tokens, stride: columns, columns }) } };
  },
  builtin: ({ dims, params }, caps) => [
    eraseStep(rmsNormKernel, {
      variant: chooseRmsNorm(caps, {}),
      params: {
        columns: requireMember(params, 'columns'),
        heads: 1,
        in_stride: requireMember(params, 'columns'),
        in_offset: 0,
        out_stride: requireMember(params, 'columns'),
        out_offset: 0,
        eps: requireMember(params, 'eps'),
      },
      bindings: {
        weight: { tensor: 'norm_weight' },
        samples: { scratch: 'samples', bytes: 48 },
        x: { tensor: 'x' },
        y: { tensor: 'y' },
      },
      dims: stepDimsFor(requireMember(dims, 'tokens')),
    }),
  ],
});

const headNorm = rowOp({
  op: 'head_norm',
  nameDims: ['tokens', 'count', 'head_dim'],
  generate(
    random,
    {
      tokens,
      columns,
      magnitude = 'ordinary',
      spareRows = 0,
      padding = 0,
      count = 1,
      offset = 0,
      eps = 1e-5,
    },
  ) {
    const headDim = Math.ceil(columns / 8) * 8;
    const stride = offset + count * headDim + padding;
    const qkv = unreadFloats(random, (tokens + spareRows) * stride);
    for (let t = 0; t < tokens; t++) {
      qkv.set(randomActivations(random, count, headDim, { magnitude, spread: true }), t * stride + offset);
    }
    if (magnitude === 'ordinary')
      relateRows(random, rowViews(qkv, { tokens, stride, columns: count * headDim, offset }));
    return {
      dims: { tokens, count, head_dim: headDim },
      params: { count, head_dim: headDim, stride, offset, eps },
      tensors: { qkv, norm_weight: randomNormWeights(random, headDim) },
    };
  },
  oracle({ dims, params, tensors }) {
    const qkv = requireFloats(tensors, 'qkv');
    const tokens = requireMember(dims, 'tokens');
    const [count, headDim, stride, offset] = ['count', 'head_dim', 'stride', 'offset'].map((name) =>
      requireMember(params, name),
    ) as [number, number, number, number];
    const values = Float64Array.from(qkv);
    const shape = { rows: count, cols: headDim, eps: Math.fround(requireMember(params, 'eps')) };
    for (let t = 0; t < tokens; t++) {
      const start = t * stride + offset;
      const heads = qkv.subarray(start, start + count * headDim);
      values.set(rmsNorm(heads, requireFloats(tensors, 'norm_weight'), shape), start);
    }
    const preserved = preservedExcept(qkv.length, { tokens, stride, columns: count * headDim, offset });
    return { qkv: { values, preserved } };
  },
  builtin: ({ dims, params }, caps) => [
    eraseStep(rmsNormKernel, {
      variant: chooseRmsNorm(caps, { inPlace: true }),
      params: {
        columns: requireMember(params, 'head_dim'),
        heads: requireMember(params, 'count'),
        in_stride: requireMember(params, 'stride'),
        in_offset: requireMember(params, 'offset'),
        out_stride: requireMember(params, 'stride'),
        out_offset: requireMember(params, 'offset'),
        eps: requireMember(params, 'eps'),
      },
      bindings: {
        weight: { tensor: 'norm_weight' },
        samples: { scratch: 'samples', bytes: 48 },
        y: { tensor: 'qkv' },
      },
      dims: stepDimsFor(requireMember(dims, 'tokens')),
    }),
  ],
});

const add = rowOp({
  op: 'add',
  nameDims: ['tokens', 'columns'],
  generate(random, { tokens, columns, magnitude = 'ordinary', spareRows = 0 }) {
    const randomRows = () => {
      const rows = unreadFloats(random, (tokens + spareRows) * columns);
      rows.set(randomActivations(random, tokens, columns, { magnitude }));
      return rows;
    };
    return { dims: { tokens, columns }, params: { columns }, tensors: { x: randomRows(), y: randomRows() } };
  },
  oracle({ dims, params, tensors }) {
    const [x, y] = [requireFloats(tensors, 'x'), requireFloats(tensors, 'y')];
    const columns = requireMember(params, 'columns');
    const tokens = requireMember(dims, 'tokens');
    const end = tokens * columns;
    const values = Float64Array.from(y, (value, i) => (i < end ? value + (x[i] as number) : value));
    return { y: { values, preserved: preservedExcept(y.length, { tokens, stride: columns, columns }) } };
  },
  // The engine fuses the addition into products.
  builtin: () => undefined,
});

const normAdd = rowOp({
  op: 'norm_add',
  nameDims: ['tokens', 'columns'],
  generate(random, { tokens, columns, magnitude = 'ordinary', spareRows = 0, eps = 1e-5 }) {
    const x = unreadFloats(random, (tokens + spareRows) * columns);
    x.set(randomActivations(random, tokens, columns, { magnitude, spread: true }));
    // The residual has the magnitude of the normalized rows.
    const y = random.normals((tokens + spareRows) * columns, 1);
    return {
      dims: { tokens, columns },
      params: { columns, eps },
      tensors: { x, norm_weight: randomNormWeights(random, columns), y },
    };
  },
  oracle({ dims, params, tensors }) {
    const [x, y] = [requireFloats(tensors, 'x'), requireFloats(tensors, 'y')];
    const [tokens, columns] = [requireMember(dims, 'tokens'), requireMember(dims, 'columns')];
    const shape = { rows: tokens, cols: columns, eps: Math.fround(requireMember(params, 'eps')) };
    const normed = rmsNorm(x.subarray(0, tokens * columns), requireFloats(tensors, 'norm_weight'), shape);
    const values = Float64Array.from(y, (value, i) => value + (normed[i] ?? 0));
    return { y: { values, preserved: preservedExcept(y.length, { tokens, stride: columns, columns }) } };
  },
  builtin: ({ dims, params }, caps) => [
    eraseStep(normAddKernel, {
      variant: chooseNormAdd(caps, { writesNextNorm: false }),
      params: { columns: requireMember(params, 'columns'), eps: requireMember(params, 'eps'), scale: 1 },
      bindings: { weight: { tensor: 'norm_weight' }, x: { tensor: 'x' }, y: { tensor: 'y' } },
      dims: stepDimsFor(requireMember(dims, 'tokens')),
    }),
  ],
});

/** Below it, e^-gate overflows f32, and WGSL does not specify the result. */
const minGate = -80;
/** Ranges of the gates of whole rows: where silu is nearly 0, nearly half of the gate, and the gate. */
const gateRanges = [
  [-14, -10],
  [-30, -14],
  [-1e-3, 1e-3],
  [10, 30],
  [-10, -4],
  [1e8, 1e10],
] as const;

const activation = rowOp({
  op: 'gated_activation',
  nameDims: ['tokens', 'columns'],
  generate(
    random,
    { tokens, columns, magnitude = 'ordinary', spareRows = 0, padding = 0, activation: of = 'silu' },
  ) {
    const gateUp = unreadFloats(random, (tokens + spareRows) * 2 * columns);
    for (let t = 0; t < tokens; t++) {
      const gate = randomActivations(random, 1, columns, { magnitude });
      // The range of gates in models, where silu(x) is neither 0 nor x.
      const widened = magnitude === 'ordinary' ? gate.map((value) => 3 * value) : gate;
      const [low, high] = (magnitude === 'constant' && gateRanges[t % gateRanges.length]) || [0, 0];
      if (high > low) for (let c = 0; c < columns; c++) widened[c] = low + (high - low) * random.uniform();
      gateUp.set(
        widened.map((value) => Math.max(minGate, value)),
        t * 2 * columns,
      );
      gateUp.set(randomActivations(random, 1, columns, { magnitude }), (2 * t + 1) * columns);
    }
    if (magnitude === 'ordinary')
      relateRows(random, rowViews(gateUp, { tokens, stride: 2 * columns, columns: 2 * columns }));
    return {
      dims: { tokens, columns },
      params: { columns, y_stride: columns + padding, activation: activationCodes[of] },
      tensors: { gate_up: gateUp },
    };
  },
  oracle({ dims, params, tensors }): { y: ExpectedOutput } {
    const gateUp = requireFloats(tensors, 'gate_up');
    const tokens = requireMember(dims, 'tokens');
    const [columns, stride] = [requireMember(params, 'columns'), requireMember(params, 'y_stride')];
    const gate = contiguousRows(gateUp, tokens, 2 * columns, columns);
    const up = contiguousRows(gateUp, tokens, 2 * columns, columns, columns);
    const results = gatedActivation(gate, up, activationOf(params));
    const values = new Float64Array((gateUp.length / (2 * columns)) * stride);
    for (let t = 0; t < tokens; t++) {
      values.set(results.subarray(t * columns, (t + 1) * columns), t * stride);
    }
    return { y: { values, preserved: preservedExcept(values.length, { tokens, stride, columns }) } };
  },
  builtin: ({ dims, params }) => [
    eraseStep(gatedActivationKernel, {
      variant: { WG: 64, GELU_TANH: activationOf(params) === 'gelu_tanh' },
      params: { columns: requireMember(params, 'columns'), out_stride: requireMember(params, 'y_stride') },
      bindings: { gate_up: { tensor: 'gate_up' }, y: { tensor: 'y' } },
      dims: stepDimsFor(requireMember(dims, 'tokens')),
    }),
  ],
});

export const rowOps: readonly LabOp[] = [norm, normAdd, headNorm, add, activation];
