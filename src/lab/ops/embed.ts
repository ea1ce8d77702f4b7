import { contracts, type Contract } from '../../../kernels/contracts.ts';
import { embed as embedKernel } from '../../../kernels/embed.ts';
import { averageBlockBytes, blockColumns, weightFormat } from '../../../kernels/formats.ts';
import type { ExpectedOutput, ParityCase } from '../types.ts';
import { eraseStep } from './builtin.ts';
import {
  randomBetween,
  caseName,
  type CaseKind,
  requireMember,
  smallMagnitude,
  stepDimsFor,
  requireWords,
} from './case-generation.ts';
import { pendingId } from './paged.ts';
import { Random } from './random.ts';
import type { CaseOptions, LabOp } from './types.ts';
import { type PackedWeights, randomWeights, WeightReader } from './random-weights.ts';

/** Maximum number of weights in the table of a live shape; larger tables are truncated. */
const maxLiveWeights = 4 << 20;
const idleSlots = 3;

interface Shape {
  readonly kind: CaseKind;
  readonly tokens: number;
  readonly vocabulary: number;
  readonly columns: number;
  readonly scale?: number;
  readonly weights?: PackedWeights;
}

function shapes(random: Random, { strict }: CaseOptions): Shape[] {
  const list: Shape[] = [
    {
      kind: 'random',
      tokens: randomBetween(random, 3, 5),
      vocabulary: randomBetween(random, 50, 99),
      columns: 96,
    },
    { kind: 'ragged', tokens: 7, vocabulary: randomBetween(random, 101, 199), columns: 288, scale: 11.3137 },
    { kind: 'ragged', tokens: 2, vocabulary: 7, columns: 4128 },
    { kind: 'extreme', tokens: 4, vocabulary: 33, columns: 64, scale: 1e5 },
    { kind: 'extreme', tokens: 3, vocabulary: 20, columns: 32, scale: smallMagnitude },
    { kind: 'one_row', tokens: 1, vocabulary: 64, columns: 160, scale: 1 },
    { kind: 'random', tokens: 130, vocabulary: 150, columns: 32 },
    // Ids that need more than 17 bits.
    { kind: 'ragged', tokens: 6, vocabulary: 140_001, columns: 32 },
  ];
  if (!strict) return list;
  return [
    ...list,
    { kind: 'random', tokens: 70, vocabulary: 1000, columns: 512 },
    { kind: 'ragged', tokens: 9, vocabulary: randomBetween(random, 300, 999), columns: 1056, scale: 0.3 },
  ];
}

function liveShapes(random: Random, { live = [] }: CaseOptions, format: string): Shape[] {
  return live
    .filter((one) => (one.format ?? format) === format)
    .flatMap(({ dims, params }) => {
      const columns = requireMember(dims, 'columns');
      const vocabulary = Math.min(requireMember(dims, 'vocabulary'), Math.ceil(maxLiveWeights / columns));
      const weights = randomWeights(random, format, vocabulary, columns, weightScale);
      const common = { kind: 'live' as const, vocabulary, columns, scale: params['scale'] ?? 1, weights };
      return [1, randomBetween(random, 3, 6)].map((tokens) => ({ ...common, tokens }));
    });
}

const weightScale = 0.05;

function makeCase(random: Random, shape: Shape, format: string): ParityCase {
  const { kind, tokens, vocabulary, columns, scale = 1 } = shape;
  const spareRows = kind === 'live' ? 0 : randomBetween(random, 0, 3);
  const weights = shape.weights ?? randomWeights(random, format, vocabulary, columns, weightScale);
  const slots = random.permutation(tokens + spareRows + idleSlots);
  const token = random.words((tokens + spareRows) * 4);
  // Half of the ids are large.
  const randomId = () =>
    random.integerBelow(2)
      ? vocabulary - 1 - random.integerBelow(Math.ceil(vocabulary / 20))
      : random.integerBelow(vocabulary);
  const sampled = Uint32Array.from(slots, randomId);
  // Several sequences are at one position, some with ids that are not known yet, and two of them last sampled different tokens.
  const position = random.integerBelow(1000);
  const firstPending = tokens < 3 ? tokens : kind === 'random' ? 0 : random.integerBelow(2);
  const ids: number[] = [];
  for (let t = 0; t < tokens; t++) {
    const isPending = t === firstPending || t === firstPending + 1 || random.integerBelow(3) === 0;
    const known = [ids.at(-1), 0, vocabulary - 1][random.integerBelow(9)] ?? randomId();
    ids.push(isPending ? pendingId : known);
    const isEqual = t <= firstPending + 1 || random.integerBelow(2) === 0;
    token.set([ids[t] as number, isEqual ? position : random.integerBelow(1000), slots[t] as number], t * 4);
  }
  const [first, second] = [firstPending, firstPending + 1].map((t) => slots[t] as number);
  if (tokens > 2 && sampled[first as number] === sampled[second as number])
    sampled[second as number] = ((sampled[second as number] as number) + 1) % vocabulary;
  const blocks = columns / blockColumns;
  const dims = { tokens, vocabulary, columns, blocks, block_bytes: averageBlockBytes(weightFormat(format)) };
  return {
    name: caseName(kind, dims, ['tokens', 'vocabulary', 'columns'], format),
    dims,
    format,
    tensors: {
      ...weights,
      token,
      sampled,
    },
    params: { blocks, scale },
  };
}

function oracle(one: ParityCase): { y: ExpectedOutput } {
  const { tensors, params, dims, format = '' } = one;
  const columns = requireMember(dims, 'columns');
  const tokens = requireMember(dims, 'tokens');
  const token = requireWords(tensors, 'token');
  const sampled = requireWords(tensors, 'sampled');
  const scale = Math.fround(requireMember(params, 'scale'));
  const reader = new WeightReader(
    { quants: requireWords(tensors, 'quants'), scales: requireWords(tensors, 'scales') },
    format,
    columns,
  );
  const values = new Float64Array((token.length / 4) * columns);
  const preserved = new Uint8Array(values.length).fill(1).fill(0, 0, tokens * columns);
  for (let t = 0; t < tokens; t++) {
    const tokenId = token[t * 4] as number;
    const id = tokenId === pendingId ? (sampled[token[t * 4 + 2] as number] as number) : tokenId;
    values.set(
      Float64Array.from(reader.row(id), (weight) => weight * scale),
      t * columns,
    );
  }
  return { y: { values, preserved } };
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
  sizedCase({ seed, dims, format = 'q8_0' }) {
    const [tokens, vocabulary, columns] = [
      requireMember(dims, 'tokens'),
      requireMember(dims, 'vocabulary'),
      requireMember(dims, 'columns'),
    ];
    return makeCase(
      new Random(seed, `sized embed ${format}`),
      { kind: 'live', tokens, vocabulary, columns },
      format,
    );
  },
  oracle,
  builtin: ({ params, dims, format = '' }) => [
    eraseStep(embedKernel, {
      variant: { FORMAT: format, WG: 64, PART: 4 },
      params: {
        rows: requireMember(dims, 'vocabulary'),
        first_row: 0,
        blocks: requireMember(params, 'blocks'),
        scale: requireMember(params, 'scale'),
        norm: 0,
      },
      bindings: {
        quants: { tensor: 'quants' },
        scales: { tensor: 'scales' },
        token: { tensor: 'token' },
        sampled: { tensor: 'sampled' },
        y: { tensor: 'y' },
        squares: { scratch: 'squares', bytes: 16 },
        norm_weight: { data: new Float32Array(4) },
        scaled: { scratch: 'scaled', bytes: 16 },
      },
      dims: stepDimsFor(requireMember(dims, 'tokens')),
    }),
  ],
};
