/** docs/models.md, as the golden test of all architectures writes it. */
import { readdirSync, readFileSync } from 'node:fs';
import { averageBlockBytes, weightFormats } from '../../kernels/formats.ts';
import type { BenchReport } from '../../bench/report.ts';
import type { TensorType } from '../../src/engine/formats/model-file.ts';
import type { StepTimes } from './model-times.ts';

/** What a comparison with transformers found. */
export interface Comparison {
  /** The fixture and the comparison: `gemma3, whole context`. */
  readonly name: string;
  readonly exact: number;
  readonly rounded: number;
  readonly mean: number;
  /** Positions where the same token leads, or the least cosine. */
  readonly agreement: string;
}

export interface Found {
  readonly adapters: readonly string[];
  readonly comparisons: readonly Comparison[];
  /** Times of the tiny models, by fixture. */
  readonly times: ReadonlyMap<string, StepTimes>;
  /** Times of one larger model in each type. */
  readonly types: ReadonlyMap<TensorType, StepTimes>;
  /** Its weights. */
  readonly typeWeights: number;
  /** `general.architecture` of a fixture. */
  readonly architectureOf: (fixture: string) => string;
}

const results = new URL('../../bench/results/', import.meta.url);

export function modelsPage(found: Found): string {
  const { adapters, comparisons } = found;
  const day = new Date().toISOString().slice(0, 10);
  return [
    '# Models: the proof and the speed of each',
    '',
    'Written by the test run itself, not by hand:',
    '`WRITE_TABLES=1 npx vitest run --project gpu test/golden/architectures.test.ts`.',
    `This is of ${day}, on ${adapters.join(', ')}.`,
    '',
    '## Architectures',
    '',
    'Tiny models of random weights (test/fixtures/architectures), held against Hugging Face transformers in float32. _Error_ is',
    'the largest difference of a logit (they spread by 2), or of an element of an embedding; _in 16 bits_ the same, and the',
    'mean, where the reference keeps keys and values in 16 bits as the engine does; _agreement_ is at how many positions the same',
    'token leads, or the least cosine. The worst of all runs of a kind is shown: the prompt, the whole context at the edges of',
    'windows, quantised while loading to Q8_0 and Q4_0. Beside that the same tests hold prompts in chunks, token by token and',
    'batched against each other, and greedy continuations against those of transformers. _Times_ are of these tiny models: what the',
    'dispatches of a step cost; of models for embeddings, texts of one token and of 64.',
    '',
    ...architectureTable(found),
    '',
    '## Types of weights',
    '',
    'Files of llama-quantize, held against transformers on the weights that they decode to; times are of one model of',
    `${(found.typeWeights / 1e6).toFixed(1)} M weights in each type.`,
    '',
    ...typeTable(found),
    '',
    '## Models of real shapes',
    '',
    ...benchTable(),
    '',
    '## All comparisons',
    '',
    ...table(
      ['model', 'error', 'in 16 bits', 'mean, in 16 bits', 'agreement'],
      comparisons
        .toSorted((a, b) => (a.name < b.name ? -1 : 1))
        .map((one) => [one.name, short(one.exact), short(one.rounded), short(one.mean), one.agreement]),
    ),
    '',
  ].join('\n');
}

function architectureTable({ comparisons, times, architectureOf }: Found): string[] {
  const fixtures = [...new Set(comparisons.map(({ name }) => fixtureOf(name)))].filter(
    (name) => name !== 'types',
  );
  const rows = fixtures.toSorted().map((fixture) => {
    const own = comparisons.filter(({ name }) => fixtureOf(name) === fixture);
    const gpu = own.filter(({ name }) => name.includes('kernels for GPUs'));
    const rest = own.filter((one) => !gpu.includes(one));
    const time = times.get(fixture);
    return [
      architectureOf(fixture),
      fixture,
      worst(rest, 'exact'),
      worst(rest, 'rounded'),
      worst(rest, 'mean'),
      agreementOf(rest),
      `${worst(gpu, 'exact')}, ${agreementOf(gpu)}`,
      time ? `${time.token.toFixed(1)} ms` : '',
      time ? `${time.prompt.toFixed(1)} ms` : '',
    ];
  });
  const heads = [
    'architecture',
    'fixture',
    'error',
    'in 16 bits',
    'mean',
    'agreement',
    'kernels for GPUs',
    'token',
    '64 tokens',
  ];
  return table(heads, rows);
}

function typeTable({ comparisons, types }: Found): string[] {
  const rows = [...types].map(([type, { token, prompt }]) => {
    // Small K-quants are of one type, pure MXFP4_MOE is MXFP4; the weights of all fixtures are BF16.
    const names = [`types, ${type}`, `types, ${type}_S`, `types, ${type}_MOE`];
    const own = comparisons.filter(({ name }) => names.includes(name) || (type === 'BF16' && isPlain(name)));
    return [
      type,
      ((averageBlockBytes(weightFormats[type]) * 8) / 32).toFixed(2),
      ...(own.length === 0
        ? ['', '', '', 'against the oracle in double precision (test/gpu/weight-types.test.ts)']
        : [worst(own, 'exact'), worst(own, 'rounded'), worst(own, 'mean'), agreementOf(own)]),
      `${token.toFixed(1)} ms`,
      `${prompt.toFixed(1)} ms`,
    ];
  });
  return table(
    ['type', 'bits a weight', 'error', 'in 16 bits', 'mean', 'agreement', 'token', '64 tokens'],
    rows,
  );
}

/** The newest figures of every model that was measured by name. */
function benchTable(): string[] {
  const reports = readdirSync(results)
    .filter((name) => name.endsWith('.json'))
    .toSorted()
    .map((name) => JSON.parse(readFileSync(new URL(name, results), 'utf8')) as BenchReport)
    .filter(({ schema }) => schema === 'lathe-bench/1')
    .toSorted((one, other) => (one.date < other.date ? -1 : 1));
  const rows = new Map<string, string[]>();
  for (const { date, adapter, models, quick } of reports) {
    for (const { model, architecture, parameters, contexts } of models) {
      const [first, second] = contexts;
      const shown = second ?? first;
      if (!shown) continue;
      rows.set(`${model} ${adapter.description}`, [
        architecture,
        model,
        `${(parameters / 1e6).toFixed(0)} M`,
        String(shown.decodeTokensPerSecond),
        String(shown.prefillTokensPerSecond),
        String(shown.context),
        adapter.description,
        `${date.slice(0, 10)}${quick ? ', few rounds' : ''}`,
      ]);
    }
  }
  const heads = [
    'architecture',
    'model',
    'weights',
    'decode, tokens/s',
    'prefill, tokens/s',
    'prompt',
    'adapter',
    'measured',
  ];
  return [
    'Published shapes with random weights (some with fewer layers, which the name tells; gemma4 with an eighth of its ' +
      'vocabulary, too), and `tiny`, the embedded model, by `npm run bench` (bench/results).',
    '',
    ...table(
      heads,
      [...rows.values()].toSorted(([a = '', b = ''], [c = '', d = '']) => (a + b < c + d ? -1 : 1)),
    ),
  ];
}

const isPlain = (name: string): boolean => name.endsWith(', BF16') && !name.startsWith('types');
const fixtureOf = (name: string): string => name.split(',')[0] as string;
const short = (error: number): string => error.toExponential(1);
const worst = (list: readonly Comparison[], member: 'exact' | 'rounded' | 'mean'): string =>
  list.length === 0 ? '' : short(Math.max(...list.map((one) => one[member])));

/** Positions added up, or the least cosine. */
function agreementOf(list: readonly Comparison[]): string {
  const counts = list
    .map(({ agreement }) => /^top-1 (\d+) of (\d+)$/.exec(agreement))
    .filter((one) => one !== null);
  if (counts.length === 0) return list.map(({ agreement }) => agreement).toSorted()[0] ?? '';
  const sum = (index: number) => counts.reduce((total, one) => total + Number(one[index]), 0);
  return `${sum(1)} of ${sum(2)}`;
}

function table(heads: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const widths = heads.map((_, at) => Math.max(...[heads, ...rows].map((row) => row[at]?.length ?? 0)));
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join(' | ')} |`;
  return [line(heads), `| ${widths.map((width) => '-'.repeat(width)).join(' | ')} |`, ...rows.map(line)];
}
