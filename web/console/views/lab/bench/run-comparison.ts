/**
 * Compares two finished benches. A machine is not equally fast at two times, so speeds are ratios to the baseline of the same bench, and
 * times of components are fractions of a token's time with it.
 */
import { estimateChange, type Estimate, type PairedTimes } from '../../../../../src/lab/bench/statistics.ts';
import { decideVerdict, noiseFloor } from '../../../../../src/lab/bench/verdict.ts';
import { seededRandom } from '../../../../../src/util/random.ts';
import { formatBytes } from '../../../../ui/format.ts';
import { kernelName, slotOf } from '../graph/graph-model.ts';
import { shortDigest } from '../kernels/paths.ts';
import type { BenchRecord } from './queries.ts';
import type { Verdict } from './verdict-text.ts';

export interface Setting {
  readonly name: string;
  readonly before: string;
  readonly after: string;
  /** Where it differs, the speeds cannot be compared. */
  readonly isDecisive: boolean;
}

type Reader = readonly [name: string, read: (record: BenchRecord) => string, isDecisive?: true];

const listed = (values: readonly (string | number)[]): string => values.join(', ') || 'none';
const range = ({ least, most }: { least: number; most: number }): string =>
  least === most ? String(most) : `${least} to ${most}`;

const readers: readonly Reader[] = [
  ['Kernels', ({ kernels }) => listed(kernels.map(({ name, digest }) => `${name} ${shortDigest(digest)}`))],
  ['Components', ({ kernels }) => listed([...new Set(kernels.flatMap((one) => one.components.map(slotOf)))])],
  ['Other kernels in both arms', ({ result }) => listed(result.beside ?? []), true],
  ['Model', ({ model }) => model],
  ['Digest of the model', ({ result }) => shortDigest(result.fingerprint.model), true],
  ['Adapter', ({ result }) => result.fingerprint.adapter, true],
  ['Backend', ({ result }) => result.fingerprint.backend, true],
  ['Driver', ({ result }) => result.fingerprint.driver, true],
  ['Dawn', ({ result: { fingerprint } }) => listed([fingerprint.dawn, ...fingerprint.toggles]), true],
  ['Processor', ({ machine }) => `${machine.cpu}, ${machine.cores} cores`, true],
  ['Memory', ({ machine }) => formatBytes(machine.memory_bytes), true],
  ['System', ({ machine }) => machine.os, true],
  ['lathe', ({ machine }) => machine.lathe, true],
  ['Load of the machine', ({ machine }) => machine.load.toFixed(1)],
  ['Mode', ({ mode }) => mode],
  ['Prompt tokens', ({ result }) => String(result.prefill.prompt_tokens), true],
  ['Contexts', ({ result }) => listed(result.budget.contexts), true],
  ['Decoded tokens of a sample', ({ result }) => range(result.budget.new_tokens)],
  ['Rounds', ({ result }) => String(result.rounds)],
  ['Smallest difference asked about', ({ result }) => `${Number((result.effect * 100).toPrecision(2))} %`],
  ['Seed', ({ result }) => String(result.fingerprint.seed)],
];

export const settingsOf = (before: BenchRecord, after: BenchRecord): readonly Setting[] =>
  readers.map(([name, read, isDecisive = false]) => ({
    name,
    before: read(before),
    after: read(after),
    isDecisive,
  }));

export const differs = ({ before, after }: Setting): boolean => before !== after;

/** Settings whose difference keeps the two from being compared. */
export const obstaclesOf = (settings: readonly Setting[]): readonly Setting[] =>
  settings.filter((one) => one.isDecisive && differs(one));

/** Lengths concern only the rows that one of the benches does not have. */
const lengthSettings: ReadonlySet<string> = new Set(['Prompt tokens', 'Contexts']);

export const isLength = ({ name }: Setting): boolean => lengthSettings.has(name);

export interface SpeedRow {
  readonly name: string;
  readonly before: Estimate | undefined;
  readonly after: Estimate | undefined;
  /** `after` relative to `before`; undefined where only one bench has it, or machine, model or baseline differ. */
  readonly change: (Estimate & { readonly verdict: Verdict }) | undefined;
}

/** Ratios of speed with intervals from the raw times of the rounds. */
export function speedRows(before: BenchRecord, after: BenchRecord): readonly SpeedRow[] {
  const settings = settingsOf(before, after);
  const isSameMachine = obstaclesOf(settings).every(isLength);
  const areSameContexts = settings.some((one) => one.name === 'Contexts' && !differs(one));
  const cells = [cellsOf(before), cellsOf(after)] as const;
  const names = [...new Set([...cells[0].keys(), ...cells[1].keys()])];
  return names.map((name) => {
    const [left, right] = [cells[0].get(name), cells[1].get(name)];
    const isComparable = isSameMachine && (name !== allContexts || areSameContexts);
    return {
      name,
      before: left?.estimate,
      after: right?.estimate,
      change: left && right && isComparable ? changeOf([left, before], [right, after]) : undefined,
    };
  });
}

interface Cell {
  readonly estimate: Estimate;
  readonly control: Estimate | undefined;
  /** One element for each context. */
  readonly times: readonly PairedTimes[];
}

const allContexts = 'Decode, all contexts';

function cellsOf({ result, rounds }: BenchRecord): ReadonlyMap<string, Cell> {
  const { prefill, decode, delta, ratio_ci95: ci95, control } = result;
  const timesOf = (kind: 'prefill' | 'decode', index: number): PairedTimes => {
    const samples = rounds.flatMap((all) => all.filter((one) => one.kind === kind)[index] ?? []);
    return {
      baseline: samples.map((one) => one.baseline_ms),
      bound: samples.map((one) => one.bound_ms),
      control: samples.map((one) => one.control_ms),
    };
  };
  const decodeTimes = decode.map((_, index) => timesOf('decode', index));
  return new Map<string, Cell>([
    [
      allContexts,
      {
        estimate: { ratio: 1 + delta.decode, ci95: { low: ci95[0], high: ci95[1] } },
        control: control ?? decode[0]?.control,
        times: decodeTimes,
      },
    ],
    ...decode.map((row, index) => {
      const times = decodeTimes.slice(index, index + 1);
      return [`Decode at ${row.context}`, { estimate: row, control: row.control, times }] as const;
    }),
    [
      `Prompt of ${prefill.prompt_tokens}`,
      { estimate: prefill, control: prefill.control, times: [timesOf('prefill', 0)] },
    ],
  ]);
}

/** The interval decides as in a bench: it must exclude the larger noise of the two. */
function changeOf(
  [left, before]: readonly [Cell, BenchRecord],
  [right, after]: readonly [Cell, BenchRecord],
): SpeedRow['change'] {
  if ([...left.times, ...right.times].some(({ bound }) => bound.length === 0)) return undefined;
  // The same comparison has the same figures each time.
  const change = estimateChange(left.times, right.times, seededRandom(1));
  const none = { ratio: 1, ci95: { low: 1, high: 1 } };
  const [first, second] = [left.control ?? none, right.control ?? none];
  const verdict = decideVerdict(
    { ...change, control: noiseFloor(first) > noiseFloor(second) ? first : second },
    {
      rounds: Math.min(before.result.rounds, after.result.rounds),
      isDoubtful: [before, after].some(({ result }) => result.verdict === 'suspect'),
      effect: Math.max(before.result.effect, after.result.effect),
    },
  );
  return { ...change, verdict };
}

export interface ComponentRow {
  readonly slot: string;
  readonly kernels: readonly [before: string, after: string];
  /** GPU time as a fraction of a decoded token's with the baseline of the same bench. */
  readonly before: number | undefined;
  readonly after: number | undefined;
}

/** GPU times by component, those with the largest difference first. They come from traces, so they have no interval. */
export function componentRows(before: BenchRecord, after: BenchRecord): readonly ComponentRow[] {
  const [left, right] = [sharesOf(before), sharesOf(after)];
  const difference = ({ before: a = 0, after: b = 0 }: ComponentRow) => Math.abs(a - b);
  return [...new Set([...left.keys(), ...right.keys()])]
    .map((slot) => ({
      slot,
      kernels: [left.get(slot)?.kernel ?? '', right.get(slot)?.kernel ?? ''] as const,
      before: left.get(slot)?.share,
      after: right.get(slot)?.share,
    }))
    .toSorted((a, b) => difference(b) - difference(a));
}

function sharesOf({ result: { components } }: BenchRecord) {
  const stepMs = components.reduce((sum, { baseline_ms: ms = 0 }) => sum + ms, 0);
  if (stepMs === 0) return new Map<string, { share: number; kernel: string }>();
  return new Map(
    [...Map.groupBy(components, ({ id }) => slotOf(id))].map(([slot, members]) => [
      slot,
      {
        share: members.reduce((sum, { gpu_ms: ms }) => sum + ms, 0) / stepMs,
        kernel: [...new Set(members.map(({ kernel }) => kernelName(kernel).name))].join(', '),
      },
    ]),
  );
}
