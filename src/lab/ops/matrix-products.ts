import type { Variant } from '../../../kernels/assemble.ts';
import { activationCodes, contracts, type Contract } from '../../../kernels/contracts.ts';
import type { AdapterCaps } from '../../../kernels/define.ts';
import { averageBlockBytes, blockColumns, weightFormat } from '../../../kernels/formats.ts';
import { type MatmulOption, matmulFamilies, matmulFlags, withFlags } from '../../../kernels/matmul.ts';
import {
  type Activation,
  gatedActivation,
  matmul,
  rmsNorm,
  type Values,
} from '../../../kernels/reference/index.ts';
import { chooseRmsNorm, rmsNorm as rmsNormKernel } from '../../../kernels/rms-norm.ts';
import type { Dims, ExpectedOutput, ParityCase, TensorData } from '../types.ts';
import {
  randomActivations,
  randomBetween,
  caseName,
  requireFloats,
  randomNormWeights,
  oddStepSize,
  stepSizes,
  type CaseKind,
  type Magnitude,
  requireMember,
  smallMagnitude,
  stepDimsFor,
  contiguousRows,
  requireWords,
  unreadFloats,
} from './case-generation.ts';
import { eraseStep } from './builtin.ts';
import { exactnessOf } from './exactness.ts';
import { Random } from './random.ts';
import type { BuiltinBinding, BuiltinStep, CaseOptions, LabOp, LiveShape } from './types.ts';
import { type PackedWeights, randomWeights, WeightReader } from './random-weights.ts';

interface Traits {
  readonly norm: boolean;
  readonly gated: boolean;
  readonly add: boolean;
  readonly isSingleToken: boolean;
}

interface Shape {
  readonly kind: CaseKind;
  readonly tokens: number;
  readonly rows: number;
  readonly columns: number;
  readonly magnitude?: Magnitude;
  readonly bias?: boolean;
  /** Unused elements at the end of each row of x and y. */
  readonly xPadding?: number;
  readonly yPadding?: number;
  readonly yOffset?: number;
  /** Rows of the buffers that the step does not use. */
  readonly spareRows?: number;
  readonly eps?: number;
  /** Scale of the results; gated products have none. */
  readonly scale?: number | undefined;
  readonly activation?: Activation | undefined;
  /** Default: random weights. */
  readonly weights?: PackedWeights;
  /** The codes of all weights are equal, where the format has codes. */
  readonly equalWeights?: true;
  /** All activations of a row have one magnitude, so that rounding them to 8 bits is exact: the weights must be, too. */
  readonly signs?: true;
  /** Root mean square of random weights. */
  readonly weightScale?: number;
}

/** NMSE of products with exact weights and activations: f16 scales of the activations, or f16 products, give up to 1e-6. */
const maxExactNmse = 2e-6;

/** Weights of 8-bit blocks have scales of about 2e-5 then. */
const subnormalScale = 1.5e-3;

/** Maximum number of weights of a live shape. Larger matrices are truncated, because generating them takes too long. */
const maxLiveWeights = 4 << 20;
/** Maximum number of multiply-adds of a candidate for a live case of many tokens. */
const maxLiveProducts = 4e7;
/** Maximum number of multiply-adds of the oracle for one case. For larger cases it computes a subset of the rows. */
const maxOracleMultiplies = 2e6;

/** All matrix products of `kernels/contracts.ts`. */
export const productOps: readonly LabOp[] = [...contracts.values()]
  .filter((contract) => contract.covers.includes('matmul'))
  .map((contract) => productOp(contract));

function productOp(contract: Contract): LabOp {
  const traits: Traits = {
    norm: contract.covers[0] === 'rms_norm',
    gated: contract.covers.at(-1) === 'gated_activation',
    add: contract.covers.at(-1) === 'add',
    isSingleToken: contract.tokens === 'one',
  };
  return {
    contract,
    cases: (options) =>
      options.formats.flatMap((format) => {
        const random = new Random(options.seed, `${contract.op} ${format}`);
        return [
          ...shapes(random, traits, options).map((shape) => makeCase(random, traits, shape, format)),
          ...liveCases(random, traits, options.live ?? [], format),
          ...unusualShapes(random, traits).map((shape) => makeCase(random, traits, shape, format)),
        ];
      }),
    sizedCase({ seed, dims, format = 'q8_0' }) {
      const [tokens, rows, columns] = ['tokens', 'rows', 'columns'].map((name) =>
        requireMember(dims, name),
      ) as [number, number, number];
      const shape = { kind: 'live', tokens, rows, columns } as const;
      return makeCase(new Random(seed, `sized ${contract.op} ${format}`), traits, shape, format);
    },
    oracle: (one) => ({ y: oracle(one, traits) }),
    builtin: (one, caps) => builtin(one, traits, caps),
  };
}

function shapes(random: Random, { gated, isSingleToken }: Traits, { strict }: CaseOptions): Shape[] {
  const randomShapes = (): Shape[] => [
    {
      kind: 'random',
      tokens: randomBetween(random, 2, 4),
      rows: 32 * randomBetween(random, 1, 3),
      columns: 32 * randomBetween(random, 2, 5),
      bias: true,
    },
    {
      kind: 'ragged',
      tokens: randomBetween(random, 5, 7),
      rows: 33 + 2 * random.integerBelow(16),
      columns: 32 * randomBetween(random, 3, 6),
      xPadding: 4 * randomBetween(random, 1, 9),
      yPadding: randomBetween(random, 8, 20),
      yOffset: randomBetween(random, 1, 7),
      spareRows: 2,
    },
  ];
  const equalColumns = 32 * randomBetween(random, 20, 30);
  const list: Shape[] = [
    ...randomShapes(),
    // Long rows, such that the last chunk of a kernel's loop is partial for every chunk size.
    { kind: 'ragged', tokens: 2, rows: randomBetween(random, 5, 13), columns: 4128, bias: true, yPadding: 3 },
    {
      kind: 'ragged',
      tokens: 3,
      rows: randomBetween(random, 500, 600),
      columns: 32,
      spareRows: 1,
      bias: true,
    },
    { kind: 'ragged', tokens: 2, rows: 20, columns: 32, yOffset: 5000 },
    // Rows as long as those of large models, more of them than a dispatch with a fixed number of workgroups computes, equal values.
    { kind: 'ragged', tokens: 2, rows: 7, columns: 32 * randomBetween(random, 260, 520), bias: true },
    { kind: 'ragged', tokens: 2, rows: randomBetween(random, 8200, 9800), columns: 32 },
    {
      kind: 'extreme',
      tokens: 2,
      rows: 33,
      columns: equalColumns,
      magnitude: 'constant',
      equalWeights: true,
      // Sums of a few, so that the activation of a gate is neither 0 nor the gate.
      weightScale: 2 / equalColumns,
    },
    { kind: 'extreme', tokens: 3, rows: 64, columns: 32 * randomBetween(random, 8, 12), signs: true },
    // Scales that f16 has as subnormal numbers only.
    { kind: 'extreme', tokens: 2, rows: 24, columns: 96, weightScale: subnormalScale },
    { kind: 'extreme', tokens: 4, rows: 40, columns: 128, magnitude: 'large' },
    { kind: 'extreme', tokens: 3, rows: 33, columns: 96, magnitude: 'small', bias: true },
    {
      kind: 'one_row',
      tokens: 1,
      rows: randomBetween(random, 40, 100),
      columns: 64,
      bias: true,
      spareRows: 2,
    },
  ];
  if (!isSingleToken) {
    list.push(
      { kind: 'ragged', tokens: 33, rows: 21, columns: 64, bias: true, yPadding: 1 },
      { kind: 'random', tokens: 130, rows: 24, columns: 64 },
      // The row count of a full step, and powers of two.
      { kind: 'random', tokens: 517, rows: 9, columns: 32, bias: true },
      { kind: 'random', tokens: oddStepSize, rows: 6, columns: 256 },
      ...[8, 16, 64, ...stepSizes(random, 3)].map((tokens) => ({
        kind: 'random' as const,
        tokens,
        rows: 10,
        columns: 32,
      })),
    );
  }
  if (strict) {
    for (let i = 0; i < 3; i++) list.push(...randomShapes());
    list.push(
      { kind: 'random', tokens: 16, rows: 192, columns: 512, bias: true },
      { kind: 'ragged', tokens: 9, rows: 2051, columns: 96, yPadding: 5, yOffset: 5 },
      { kind: 'ragged', tokens: 4, rows: 17, columns: 8224, bias: true },
      { kind: 'extreme', tokens: 7, rows: 65, columns: 1056, magnitude: 'large', bias: true },
    );
  }
  return list.map((shape) => ({
    ...shape,
    tokens: isSingleToken ? 1 : shape.tokens,
    bias: shape.bias === true && !gated,
    eps: randomBetween(random, 1, 20) * 1e-6,
  }));
}

/** Features that few models use: an activation other than silu, or scaled results. */
function unusualShapes(random: Random, { gated, isSingleToken }: Traits): Shape[] {
  const unusualFeatures = (scale: number): Pick<Shape, 'activation' | 'scale' | 'bias'> =>
    gated ? { activation: 'gelu_tanh' } : { scale, bias: true };
  const tokens = (count: number) => (isSingleToken ? 1 : count);
  return [
    {
      kind: 'ragged',
      tokens: tokens(3),
      rows: 33 + random.integerBelow(9),
      columns: 96,
      yPadding: 5,
      ...unusualFeatures(0.22),
    },
    { kind: 'extreme', tokens: tokens(2), rows: 40, columns: 64, magnitude: 'large', ...unusualFeatures(-3) },
    {
      kind: 'one_row',
      tokens: 1,
      rows: randomBetween(random, 40, 100),
      columns: 64,
      spareRows: 2,
      ...unusualFeatures(12),
    },
  ];
}

function liveCases(random: Random, traits: Traits, live: readonly LiveShape[], format: string): ParityCase[] {
  return live
    .filter((shape) => (shape.format ?? format) === format)
    .flatMap(({ dims, params }) => {
      const columns = requireMember(dims, 'columns');
      const maxRows = Math.max(1, Math.floor(maxLiveWeights / (columns * (traits.gated ? 2 : 1))));
      const allRows = requireMember(dims, 'rows');
      // Keep the remainder: it determines which lanes of the last workgroup are idle.
      const rows = allRows <= maxRows ? allRows : Math.max(1, maxRows - (maxRows % 256) + (allRows % 256));
      const yOffset = params['y_offset'] ?? 0;
      const weights = randomMatrix(random, traits, format, { rows, columns });
      // One token, a few, and a size of any class for which there is time.
      const sizes = stepSizes(random).filter((tokens) => tokens * rows * columns <= maxLiveProducts);
      const counts = traits.isSingleToken
        ? [1]
        : [1, randomBetween(random, 3, 6), ...random.permutation(sizes.length).slice(0, 1)].map((count, n) =>
            n < 2 ? count : (sizes[count] as number),
          );
      return counts.map((tokens) =>
        makeCase(
          random,
          traits,
          {
            kind: 'live',
            tokens,
            rows,
            columns,
            bias: params['has_bias'] === 1,
            xPadding: (params['x_stride'] ?? columns) - columns,
            yOffset,
            yPadding: Math.max(0, (params['y_stride'] ?? rows) - yOffset - rows),
            eps: params['eps'] ?? 1e-5,
            scale: params['scale'],
            activation: activationOf(params),
            weights,
          },
          format,
        ),
      );
    });
}

const activationOf = (params: Readonly<Record<string, number>>): Activation =>
  params['activation'] === activationCodes.gelu_tanh ? 'gelu_tanh' : 'silu';

/** Sums of ordinary inputs are about 1. Scales of quantized blocks stay in the range where f16 has full precision. */
const weightScale = (columns: number) => Math.max(0.02, 1.4 / Math.sqrt(columns));

const randomMatrix = (
  random: Random,
  { gated }: Traits,
  format: string,
  {
    rows,
    columns,
    weightScale: scale = weightScale(columns),
  }: Pick<Shape, 'rows' | 'columns' | 'weightScale'>,
) => randomWeights(random, format, gated ? 2 * rows : rows, columns, scale);

function makeCase(random: Random, traits: Traits, shape: Shape, format: string): ParityCase {
  const {
    kind,
    tokens,
    rows,
    columns,
    magnitude = 'ordinary',
    bias = false,
    spareRows = 0,
    eps = 1e-5,
  } = shape;
  const { xPadding = 0, yPadding = 0, yOffset = 0, scale = 1, activation = 'silu' } = shape;
  const xStride = columns + xPadding;
  const yStride = yOffset + rows + yPadding;
  const room = tokens + spareRows;
  const weights = shape.weights ?? randomMatrix(random, traits, format, shape);
  if (shape.equalWeights && exactnessOf(contracts.get('matmul') as Contract, format) === 'quantised')
    weights.quants.fill(random.integerBelow(2) ? 0x77777777 : 0x99999999);
  const x = unreadFloats(random, room * xStride);
  const activationRows = randomActivations(random, tokens, columns, { magnitude, spread: traits.norm });
  for (let t = 0; t < tokens; t++)
    x.set(activationRows.subarray(t * columns, (t + 1) * columns), t * xStride);
  // Activations of products of weights without codes may not be rounded anyway.
  const isExact =
    shape.signs === true && exactnessOf(contracts.get('matmul') as Contract, format) === 'quantised';
  if (isExact)
    for (let t = 0; t < tokens; t++) {
      const size = 2 ** randomBetween(random, -2, 2);
      for (let c = 0; c < columns; c++) x[t * xStride + c] = random.integerBelow(2) ? size : -size;
    }
  // Bias and residual have the magnitude of the sums, so that an error in either is visible.
  const sumMagnitude =
    (magnitude === 'small' && !traits.norm ? smallMagnitude : 1) *
    (shape.weightScale ?? weightScale(columns)) *
    Math.sqrt(columns);
  const tensors: Record<string, TensorData> = {
    quants: weights.quants,
    scales: weights.scales,
    x,
    bias: bias ? random.normals(rows, sumMagnitude) : unreadFloats(random, 4),
  };
  if (traits.add) tensors['y'] = random.normals(room * yStride, sumMagnitude);
  if (traits.norm)
    tensors['norm_weight'] = isExact ? new Float32Array(columns).fill(1) : randomNormWeights(random, columns);
  const blocks = columns / blockColumns;
  const dims: Dims = { tokens, rows, columns, blocks, block_bytes: averageBlockBytes(weightFormat(format)) };
  return {
    // The name lists the features that an author may have forgotten.
    name: [
      caseName(kind, dims, ['tokens', 'rows', 'columns'], format),
      ...(bias ? ['bias'] : []),
      ...(yOffset > 0 ? [`offset ${yOffset}`] : []),
      ...(scale === 1 ? [] : [`scale ${scale}`]),
      ...(activation === 'silu' ? [] : [activation]),
      ...(isExact ? ['signs'] : []),
    ].join(' '),
    ...(isExact ? { maxNmse: maxExactNmse } : {}),
    dims,
    format,
    tensors,
    params: {
      rows,
      blocks,
      x_stride: xStride,
      y_stride: yStride,
      y_offset: yOffset,
      has_bias: bias ? 1 : 0,
      eps,
      ...(traits.gated ? { activation: activationCodes[activation] } : { scale }),
    },
  };
}

/** Rows whose results are checked: all, or the first, the last and a random selection. */
function checkedRows(one: ParityCase, multipliesPerRow: number): Iterable<number> {
  const rows = requireMember(one.params, 'rows');
  const maxRows = Math.max(2, Math.floor(maxOracleMultiplies / multipliesPerRow));
  if (rows <= maxRows) return Array(rows).keys();
  const random = new Random(requireWords(one.tensors, 'quants')[0] ?? 0, one.name);
  const selected = new Set([0, rows - 1]);
  while (selected.size < maxRows) selected.add(random.integerBelow(rows));
  return selected;
}

function oracle(one: ParityCase, traits: Traits): ExpectedOutput {
  const { params, tensors, dims } = one;
  const [tokens, columns] = [requireMember(dims, 'tokens'), requireMember(dims, 'columns')];
  const [rows, yStride, yOffset] = ['rows', 'y_stride', 'y_offset'].map((name) =>
    requireMember(params, name),
  ) as [number, number, number];
  const xStride = requireMember(params, 'x_stride');
  let inputs: Values = contiguousRows(requireFloats(tensors, 'x'), tokens, xStride, columns);
  if (traits.norm) {
    const shape = { rows: tokens, cols: columns, eps: Math.fround(requireMember(params, 'eps')) };
    inputs = rmsNorm(inputs, requireFloats(tensors, 'norm_weight'), shape);
  }
  const initial = tensors['y'] as Float32Array | undefined;
  const elements = initial?.length ?? Math.floor(requireFloats(tensors, 'x').length / xStride) * yStride;
  const values = new Float64Array(elements);
  const preserved = new Uint8Array(elements).fill(1);
  const unspecified = new Uint8Array(elements);
  if (initial) values.set(initial);
  for (let t = 0; t < tokens; t++) {
    const start = t * yStride + yOffset;
    preserved.fill(0, start, start + rows);
    unspecified.fill(1, start, start + rows);
  }
  const reader = new WeightReader(
    { quants: requireWords(tensors, 'quants'), scales: requireWords(tensors, 'scales') },
    one.format ?? '',
    columns,
  );
  const sumsOf = (row: number) => matmul(inputs, reader.row(row), { tokens, inputs: columns, outputs: 1 });
  const bias = params['has_bias'] === 1 ? requireFloats(tensors, 'bias') : undefined;
  const scale = Math.fround(params['scale'] ?? 1);
  for (const row of checkedRows(one, tokens * columns * (traits.gated ? 2 : 1))) {
    const sumMagnitude = sumsOf(row);
    const results = traits.gated
      ? gatedActivation(sumMagnitude, sumsOf(rows + row), activationOf(params))
      : sumMagnitude;
    for (let t = 0; t < tokens; t++) {
      const at = t * yStride + yOffset + row;
      values[at] = ((results[t] as number) + (bias?.[row] ?? 0)) * scale + (initial?.[at] ?? 0);
      unspecified[at] = 0;
    }
  }
  return { values, preserved, unspecified };
}

/** More tokens than this are compared with the kernels for prompts. */
const promptTokens = 8;

/**
 * The engine's first choice among the kernels that do not round activations: others are not a reference for the error of a
 * candidate.
 */
function builtinOptionFor(caps: AdapterCaps, format: string, tokens: number): MatmulOption | undefined {
  const [family] = matmulFamilies(caps);
  const selected = family
    ?.classes(format)
    .find(
      ({ upTo, options }) =>
        tokens <= upTo && (options[0]?.kernel.rows !== 'prompt' || tokens > promptTokens),
    );
  return selected?.options.find(
    ({ variant, roundsTo16Bits = false }) => variant['F16'] !== true && !roundsTo16Bits,
  );
}

function builtin(one: ParityCase, traits: Traits, caps: AdapterCaps): BuiltinStep[] | undefined {
  const { params, tensors, dims, format = '' } = one;
  const tokens = requireMember(dims, 'tokens');
  const columns = requireMember(dims, 'columns');
  const option = builtinOptionFor(caps, format, tokens);
  if (!option) return undefined;
  const rows = requireMember(params, 'rows');
  const hasBias = params['has_bias'] === 1;
  const flags =
    (hasBias ? matmulFlags.bias : 0) |
    (traits.add ? matmulFlags.add : 0) |
    (traits.gated ? matmulFlags.gated : 0) |
    (traits.gated && activationOf(params) === 'gelu_tanh' ? matmulFlags.geluTanh : 0);
  const xStride = requireMember(params, 'x_stride');
  // The kernels need contiguous rows.
  const x: BuiltinBinding =
    xStride === columns
      ? { tensor: 'x' }
      : { data: contiguousRows(requireFloats(tensors, 'x'), tokens, xStride, columns) };
  const normalized = { scratch: 'normalised', bytes: tokens * columns * 4 };
  const { kernel, variant } = withFlags(option, flags);
  const steps: BuiltinStep[] = [];
  if (traits.norm) {
    steps.push(
      eraseStep(rmsNormKernel, {
        variant: chooseRmsNorm(caps, {}),
        params: {
          columns,
          heads: 1,
          in_stride: columns,
          in_offset: 0,
          out_stride: columns,
          out_offset: 0,
          eps: requireMember(params, 'eps'),
        },
        bindings: {
          weight: { tensor: 'norm_weight' },
          samples: { scratch: 'samples', bytes: 48 },
          x,
          y: normalized,
        },
        dims: stepDimsFor(tokens),
      }),
    );
  }
  steps.push(
    eraseStep<Variant, Record<string, number>>(kernel as never, {
      variant,
      params: {
        rows: traits.gated ? 2 * rows : rows,
        blocks: requireMember(params, 'blocks'),
        out_stride: requireMember(params, 'y_stride'),
        out_offset: requireMember(params, 'y_offset'),
        flags,
        bias_offset: 0,
        norm_weight_offset: 0,
        half: rows,
        parts: 1,
        width: columns,
        eps: requireMember(params, 'eps'),
        loop_limit: 1024,
        scale: params['scale'] ?? 1,
      },
      bindings: {
        quants: { tensor: 'quants' },
        scales: { tensor: 'scales' },
        vectors: { tensor: 'bias' },
        x: traits.norm ? normalized : x,
        y: { tensor: 'y' },
        squares: { scratch: 'squares', bytes: 16 },
        scaled: { scratch: 'scaled', bytes: 16 },
      },
      dims: stepDimsFor(tokens, { decodeRows: kernel.rows === 'decode' ? tokens : 0 }),
    }),
  );
  return steps;
}
