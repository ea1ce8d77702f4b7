import { contracts, type Contract } from '../../../kernels/contracts.ts';
import { embed as embedKernel } from '../../../kernels/embed.ts';
import { blockBytes, blockColumns, weightFormat } from '../../../kernels/formats.ts';
import type { ExpectedOutput, ParityCase } from '../types.ts';
import { erasedStep } from './builtin.ts';
import { between, caseName, type Kind, member, smallest, stepOf, words } from './draws.ts';
import { Random } from './random.ts';
import type { CaseOptions, LabOp } from './types.ts';
import { type PackedWeights, randomWeights, WeightReader } from './weights.ts';

/** Token id that stands for the token last sampled for the slot. */
const lastDrawn = 0xffffffff;
/** Maximum number of weights in the table of a live shape; larger tables are truncated. */
const liveWeights = 4 << 20;
const idleSlots = 3;

interface Shape {
  readonly kind: Kind;
  readonly tokens: number;
  readonly vocabulary: number;
  readonly columns: number;
  readonly scale?: number;
  readonly weights?: PackedWeights;
}

function shapes(random: Random, { strict }: CaseOptions): Shape[] {
  const list: Shape[] = [
    { kind: 'random', tokens: between(random, 3, 5), vocabulary: between(random, 50, 99), columns: 96 },
    { kind: 'ragged', tokens: 7, vocabulary: between(random, 101, 199), columns: 288, scale: 11.3137 },
    { kind: 'ragged', tokens: 2, vocabulary: 7, columns: 4128 },
    { kind: 'extreme', tokens: 4, vocabulary: 33, columns: 64, scale: 1e5 },
    { kind: 'extreme', tokens: 3, vocabulary: 20, columns: 32, scale: smallest },
    { kind: 'one_row', tokens: 1, vocabulary: 64, columns: 160, scale: 1 },
    { kind: 'random', tokens: 130, vocabulary: 150, columns: 32 },
    // Ids that need more than 16 bits.
    { kind: 'ragged', tokens: 6, vocabulary: 70_001, columns: 32 },
  ];
  if (!strict) return list;
  return [
    ...list,
    { kind: 'random', tokens: 70, vocabulary: 1000, columns: 512 },
    { kind: 'ragged', tokens: 9, vocabulary: between(random, 300, 999), columns: 1056, scale: 0.3 },
  ];
}

function liveShapes(random: Random, { live = [] }: CaseOptions, format: string): Shape[] {
  return live
    .filter((one) => (one.format ?? format) === format)
    .flatMap(({ dims, params }) => {
      const columns = member(dims, 'columns');
      const vocabulary = Math.min(member(dims, 'vocabulary'), Math.ceil(liveWeights / columns));
      const weights = randomWeights(random, format, vocabulary, columns, weightScale);
      const common = { kind: 'live' as const, vocabulary, columns, scale: params['scale'] ?? 1, weights };
      return [1, between(random, 3, 6)].map((tokens) => ({ ...common, tokens }));
    });
}

const weightScale = 0.05;

function makeCase(random: Random, shape: Shape, format: string): ParityCase {
  const { kind, tokens, vocabulary, columns, scale = 1 } = shape;
  const spare = kind === 'live' ? 0 : between(random, 0, 3);
  const weights = shape.weights ?? randomWeights(random, format, vocabulary, columns, weightScale);
  const slots = random.permutation(tokens + spare + idleSlots);
  const token = random.words((tokens + spare) * 4);
  for (let t = 0; t < tokens; t++) {
    const id = random.below(3) === 0 ? lastDrawn : random.below(vocabulary);
    token.set([id, random.below(1000), slots[t] as number], t * 4);
  }
  const blocks = columns / blockColumns;
  const dims = { tokens, vocabulary, columns, blocks, block_bytes: blockBytes(weightFormat(format)) };
  return {
    name: caseName(kind, dims, ['tokens', 'vocabulary', 'columns'], format),
    dims,
    format,
    tensors: {
      ...weights,
      token,
      sampled: Uint32Array.from(slots, () => random.below(vocabulary)),
    },
    params: { blocks, scale },
  };
}

function oracle(one: ParityCase): { y: ExpectedOutput } {
  const { tensors, params, dims, format = '' } = one;
  const columns = member(dims, 'columns');
  const tokens = member(dims, 'tokens');
  const token = words(tensors, 'token');
  const sampled = words(tensors, 'sampled');
  const scale = Math.fround(member(params, 'scale'));
  const reader = new WeightReader(
    { quants: words(tensors, 'quants'), scales: words(tensors, 'scales') },
    format,
    columns,
  );
  const values = new Float64Array((token.length / 4) * columns);
  const kept = new Uint8Array(values.length).fill(1).fill(0, 0, tokens * columns);
  for (let t = 0; t < tokens; t++) {
    const own = token[t * 4] as number;
    const id = own === lastDrawn ? (sampled[token[t * 4 + 2] as number] as number) : own;
    values.set(
      Float64Array.from(reader.row(id), (weight) => weight * scale),
      t * columns,
    );
  }
  return { y: { values, kept } };
}

export const embed: LabOp = {
  contract: contracts.get('embed') as Contract,
  cases: (options) =>
    options.formats.flatMap((format) => {
      const random = new Random(options.seed, `embed ${format}`);
      return [...shapes(random, options), ...liveShapes(random, options, format)].map((shape) =>
        makeCase(random, shape, format),
      );
    }),
  oracle,
  builtin: ({ params, dims, format = '' }) => [
    erasedStep(embedKernel, {
      variant: { FORMAT: format, WG: 64, PART: 4 },
      params: {
        rows: member(dims, 'vocabulary'),
        first_row: 0,
        blocks: member(params, 'blocks'),
        scale: member(params, 'scale'),
        norm: 0,
      },
      bindings: {
        quants: { tensor: 'quants' },
        scales: { tensor: 'scales' },
        token: { tensor: 'token' },
        sampled: { tensor: 'sampled' },
        y: { tensor: 'y' },
        squares: { scratch: 'squares', bytes: 16 },
        gain: { data: new Float32Array(4) },
        scaled: { scratch: 'scaled', bytes: 16 },
      },
      dims: stepOf(member(dims, 'tokens')),
    }),
  ],
};
