/** Ops that process each row independently: norms, residual sums, gated activation. */
import { activationCodes, contracts, type Contract } from '../../../kernels/contracts.ts';
import { gatedActivation as gatedActivationKernel } from '../../../kernels/gated-activation.ts';
import { type Activation, gatedActivation, rmsNorm } from '../../../kernels/reference/index.ts';
import { chooseNormAdd, normAdd as normAddKernel } from '../../../kernels/norm-add.ts';
import { chooseRmsNorm, rmsNorm as rmsNormKernel } from '../../../kernels/rms-norm.ts';
import type { Dims, ExpectedOutput, ParityCase, TensorData } from '../types.ts';
import { erasedStep } from './builtin.ts';
import {
  activations,
  between,
  caseName,
  floats,
  gains,
  type Kind,
  type Magnitude,
  member,
  stepOf,
  tight,
} from './draws.ts';
import { Random } from './random.ts';
import type { CaseOptions, LabOp } from './types.ts';

/** Shape of a case. Which optional members apply depends on the op. */
interface Shape {
  readonly kind: Kind;
  readonly tokens: number;
  readonly columns: number;
  readonly magnitude?: Magnitude;
  readonly spare?: number;
  /** Unused elements after each row. */
  readonly pad?: number;
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
  const drawn = (): Shape[] => [
    { kind: 'random', tokens: between(random, 2, 5), columns: 32 * between(random, 2, 6), count: 4 },
    {
      kind: 'ragged',
      tokens: between(random, 3, 7),
      columns: 4 * between(random, 5, 40),
      spare: 2,
      pad: 4 * between(random, 1, 5),
      count: between(random, 1, 5),
      offset: 4 * between(random, 1, 9),
    },
  ];
  const list: Shape[] = [
    ...drawn(),
    { kind: 'ragged', tokens: 2, columns: 4100, spare: 1, pad: 28, count: 1 },
    { kind: 'ragged', tokens: 33, columns: 4 * between(random, 1, 3), count: 3, offset: 8 },
    { kind: 'extreme', tokens: 4, columns: 256, magnitude: 'large', count: 2 },
    { kind: 'extreme', tokens: 3, columns: 96, magnitude: 'small', count: 2 },
    { kind: 'one_row', tokens: 1, columns: 576, spare: 3, count: 9 },
    { kind: 'random', tokens: 130, columns: 64, count: 2 },
    // The row count of a full step, and powers of two.
    { kind: 'ragged', tokens: 517, columns: 32, spare: 1, count: 1 },
    ...[8, 16, 64, 256].map((tokens) => ({ kind: 'random' as const, tokens, columns: 32, count: 1 })),
  ];
  if (strict) {
    for (let i = 0; i < 4; i++) list.push(...drawn());
    list.push(
      { kind: 'random', tokens: 70, columns: 1024, count: 2 },
      { kind: 'ragged', tokens: 3, columns: 16_388, pad: 4, count: 1 },
      { kind: 'extreme', tokens: 9, columns: 2048, magnitude: 'large', count: 1 },
    );
  }
  for (const { dims, params } of live) {
    const columns = member(dims, op === 'head_norm' ? 'head_dim' : 'columns');
    const stride = params['y_stride'] ?? params['stride'];
    const count = dims['count'] ?? 1;
    const offset = params['offset'] ?? 0;
    const pad = stride === undefined ? 0 : stride - offset - count * columns;
    const eps = params['eps'] ?? 1e-5;
    for (const tokens of [1, between(random, 3, 6)]) {
      const common = { kind: 'live' as const, tokens, columns, pad: Math.max(0, pad), count, offset, eps };
      list.push({ ...common, activation: activationOf(params) });
    }
  }
  if (op === 'gated_activation') {
    const activation = 'gelu_tanh';
    list.push(
      { kind: 'ragged', tokens: 3, columns: 4 * between(random, 5, 40), spare: 1, pad: 8, activation },
      { kind: 'extreme', tokens: 4, columns: 256, magnitude: 'large', activation },
      { kind: 'extreme', tokens: 3, columns: 96, magnitude: 'small', activation },
      { kind: 'one_row', tokens: 1, columns: 576, spare: 3, activation },
    );
  }
  return list.map((shape) => ({ eps: between(random, 1, 20) * 1e-6, ...shape }));
}

/** The parts that differ between the ops: case generation, oracle and built-in kernel. */
interface RowOp extends Pick<LabOp, 'oracle' | 'builtin'> {
  readonly op: string;
  readonly named: readonly string[];
  readonly make: (
    random: Random,
    shape: Shape,
  ) => { dims: Dims; params: Record<string, number>; tensors: Record<string, TensorData> };
}

const rowOp = ({ op, named, make, oracle, builtin }: RowOp): LabOp => ({
  contract: contractOf(op),
  cases(options) {
    const random = new Random(options.seed, op);
    return shapes(random, op, options).map((shape): ParityCase => {
      const made = make(random, shape);
      return { ...made, name: caseName(shape.kind, made.dims, named) };
    });
  },
  oracle,
  builtin,
});

/** Mask of preserved elements: all except `columns` elements from `offset` in each used row. */
function keptBut(
  length: number,
  {
    tokens,
    stride,
    columns,
    offset = 0,
  }: { tokens: number; stride: number; columns: number; offset?: number },
): Uint8Array {
  const kept = new Uint8Array(length).fill(1);
  for (let t = 0; t < tokens; t++) kept.fill(0, t * stride + offset, t * stride + offset + columns);
  return kept;
}

const norm = rowOp({
  op: 'rms_norm',
  named: ['tokens', 'columns'],
  make(random, { tokens, columns, magnitude, spare = 0, eps = 1e-5 }) {
    const x = random.normals((tokens + spare) * columns, 30);
    x.set(activations(random, tokens, columns, { magnitude: magnitude ?? 'ordinary', spread: true }));
    return {
      dims: { tokens, columns },
      params: { columns, eps },
      tensors: { x, gain: gains(random, columns) },
    };
  },
  oracle({ dims, params, tensors }) {
    const x = floats(tensors, 'x');
    const [tokens, columns] = [member(dims, 'tokens'), member(dims, 'columns')];
    const values = new Float64Array(x.length);
    const shape = { rows: tokens, cols: columns, eps: Math.fround(member(params, 'eps')) };
    values.set(rmsNorm(x.subarray(0, tokens * columns), floats(tensors, 'gain'), shape));
    return { y: { values, kept: keptBut(x.length, { tokens, stride: columns, columns }) } };
  },
  builtin: ({ dims, params }, caps) => [
    erasedStep(rmsNormKernel, {
      variant: chooseRmsNorm(caps, {}),
      params: {
        columns: member(params, 'columns'),
        heads: 1,
        in_stride: member(params, 'columns'),
        in_offset: 0,
        out_stride: member(params, 'columns'),
        out_offset: 0,
        eps: member(params, 'eps'),
      },
      bindings: {
        weight: { tensor: 'gain' },
        samples: { scratch: 'samples', bytes: 48 },
        x: { tensor: 'x' },
        y: { tensor: 'y' },
      },
      dims: stepOf(member(dims, 'tokens')),
    }),
  ],
});

const headNorm = rowOp({
  op: 'head_norm',
  named: ['tokens', 'count', 'head_dim'],
  make(
    random,
    { tokens, columns, magnitude = 'ordinary', spare = 0, pad = 0, count = 1, offset = 0, eps = 1e-5 },
  ) {
    const headDim = Math.ceil(columns / 8) * 8;
    const stride = offset + count * headDim + pad;
    const qkv = random.normals((tokens + spare) * stride, 30);
    for (let t = 0; t < tokens; t++) {
      qkv.set(activations(random, count, headDim, { magnitude, spread: true }), t * stride + offset);
    }
    return {
      dims: { tokens, count, head_dim: headDim },
      params: { count, head_dim: headDim, stride, offset, eps },
      tensors: { qkv, gain: gains(random, headDim) },
    };
  },
  oracle({ dims, params, tensors }) {
    const qkv = floats(tensors, 'qkv');
    const tokens = member(dims, 'tokens');
    const [count, headDim, stride, offset] = ['count', 'head_dim', 'stride', 'offset'].map((name) =>
      member(params, name),
    ) as [number, number, number, number];
    const values = Float64Array.from(qkv);
    const shape = { rows: count, cols: headDim, eps: Math.fround(member(params, 'eps')) };
    for (let t = 0; t < tokens; t++) {
      const start = t * stride + offset;
      const heads = qkv.subarray(start, start + count * headDim);
      values.set(rmsNorm(heads, floats(tensors, 'gain'), shape), start);
    }
    const kept = keptBut(qkv.length, { tokens, stride, columns: count * headDim, offset });
    return { qkv: { values, kept } };
  },
  builtin: ({ dims, params }, caps) => [
    erasedStep(rmsNormKernel, {
      variant: chooseRmsNorm(caps, { inPlace: true }),
      params: {
        columns: member(params, 'head_dim'),
        heads: member(params, 'count'),
        in_stride: member(params, 'stride'),
        in_offset: member(params, 'offset'),
        out_stride: member(params, 'stride'),
        out_offset: member(params, 'offset'),
        eps: member(params, 'eps'),
      },
      bindings: {
        weight: { tensor: 'gain' },
        samples: { scratch: 'samples', bytes: 48 },
        y: { tensor: 'qkv' },
      },
      dims: stepOf(member(dims, 'tokens')),
    }),
  ],
});

const add = rowOp({
  op: 'add',
  named: ['tokens', 'columns'],
  make(random, { tokens, columns, magnitude = 'ordinary', spare = 0 }) {
    const draw = () => {
      const rows = random.normals((tokens + spare) * columns, 30);
      rows.set(activations(random, tokens, columns, { magnitude }));
      return rows;
    };
    return { dims: { tokens, columns }, params: { columns }, tensors: { x: draw(), y: draw() } };
  },
  oracle({ dims, params, tensors }) {
    const [x, y] = [floats(tensors, 'x'), floats(tensors, 'y')];
    const columns = member(params, 'columns');
    const tokens = member(dims, 'tokens');
    const end = tokens * columns;
    const values = Float64Array.from(y, (value, i) => (i < end ? value + (x[i] as number) : value));
    return { y: { values, kept: keptBut(y.length, { tokens, stride: columns, columns }) } };
  },
  // The engine fuses the addition into products.
  builtin: () => undefined,
});

const normAdd = rowOp({
  op: 'norm_add',
  named: ['tokens', 'columns'],
  make(random, { tokens, columns, magnitude = 'ordinary', spare = 0, eps = 1e-5 }) {
    const x = random.normals((tokens + spare) * columns, 30);
    x.set(activations(random, tokens, columns, { magnitude, spread: true }));
    // The residual has the magnitude of the normalized rows.
    const y = random.normals((tokens + spare) * columns, 1);
    return {
      dims: { tokens, columns },
      params: { columns, eps },
      tensors: { x, gain: gains(random, columns), y },
    };
  },
  oracle({ dims, params, tensors }) {
    const [x, y] = [floats(tensors, 'x'), floats(tensors, 'y')];
    const [tokens, columns] = [member(dims, 'tokens'), member(dims, 'columns')];
    const shape = { rows: tokens, cols: columns, eps: Math.fround(member(params, 'eps')) };
    const normed = rmsNorm(x.subarray(0, tokens * columns), floats(tensors, 'gain'), shape);
    const values = Float64Array.from(y, (value, i) => value + (normed[i] ?? 0));
    return { y: { values, kept: keptBut(y.length, { tokens, stride: columns, columns }) } };
  },
  builtin: ({ dims, params }, caps) => [
    erasedStep(normAddKernel, {
      variant: chooseNormAdd(caps, { next: false }),
      params: { columns: member(params, 'columns'), eps: member(params, 'eps'), scale: 1 },
      bindings: { weight: { tensor: 'gain' }, x: { tensor: 'x' }, y: { tensor: 'y' } },
      dims: stepOf(member(dims, 'tokens')),
    }),
  ],
});

/** Below it, e^-gate overflows f32, and WGSL does not specify the result. */
const leastGate = -80;

const activation = rowOp({
  op: 'gated_activation',
  named: ['tokens', 'columns'],
  make(random, { tokens, columns, magnitude = 'ordinary', spare = 0, pad = 0, activation: of = 'silu' }) {
    const gateUp = random.normals((tokens + spare) * 2 * columns, 30);
    for (let t = 0; t < tokens; t++) {
      const gate = activations(random, 1, columns, { magnitude });
      // The range of gates in models, where silu(x) is neither 0 nor x.
      const wide = magnitude === 'ordinary' ? gate.map((value) => 3 * value) : gate;
      gateUp.set(
        wide.map((value) => Math.max(leastGate, value)),
        t * 2 * columns,
      );
      gateUp.set(activations(random, 1, columns, { magnitude }), (2 * t + 1) * columns);
    }
    return {
      dims: { tokens, columns },
      params: { columns, y_stride: columns + pad, activation: activationCodes[of] },
      tensors: { gate_up: gateUp },
    };
  },
  oracle({ dims, params, tensors }): { y: ExpectedOutput } {
    const gateUp = floats(tensors, 'gate_up');
    const tokens = member(dims, 'tokens');
    const [columns, stride] = [member(params, 'columns'), member(params, 'y_stride')];
    const gate = tight(gateUp, tokens, 2 * columns, columns);
    const up = tight(gateUp, tokens, 2 * columns, columns, columns);
    const results = gatedActivation(gate, up, activationOf(params));
    const values = new Float64Array((gateUp.length / (2 * columns)) * stride);
    for (let t = 0; t < tokens; t++) {
      values.set(results.subarray(t * columns, (t + 1) * columns), t * stride);
    }
    return { y: { values, kept: keptBut(values.length, { tokens, stride, columns }) } };
  },
  builtin: ({ dims, params }) => [
    erasedStep(gatedActivationKernel, {
      variant: { WG: 64, GELU_TANH: activationOf(params) === 'gelu_tanh' },
      params: { columns: member(params, 'columns'), out_stride: member(params, 'y_stride') },
      bindings: { gate_up: { tensor: 'gate_up' }, y: { tensor: 'y' } },
      dims: stepOf(member(dims, 'tokens')),
    }),
  ],
});

export const rowOps: readonly LabOp[] = [norm, normAdd, headNorm, add, activation];
