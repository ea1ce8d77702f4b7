import type { BenchReport, ModelFigures } from './report.ts';
import { roundFigure } from './statistics.ts';

/** A figure with a goal. */
export interface Figure {
  /** Model and what was measured: `tiny 8 streams t/s`. */
  readonly figure: string;
  readonly ours: number;
  /** The compared value; absent when the goal applies to `ours` itself. */
  readonly peer?: number;
  /** `ours / peer`, or `ours` without a peer. */
  readonly ratio: number;
  readonly goal: number;
  /** Side of the goal on which the ratio should be. */
  readonly wanted: 'at least' | 'at most';
  readonly met: boolean;
}

type MeasuredReport = Pick<BenchReport, 'adapter' | 'models' | 'overhead' | 'startUp'>;

/** Goals by kind of adapter; undefined: no goal for that kind. */
const goals = {
  streams: { software: 1.3, gpu: 5 },
  prefix: { software: 0.15, gpu: 0.1 },
  attentionGrowth: { software: 0.8, gpu: undefined },
  decodeGrowth: { software: undefined, gpu: 0.8 },
  overheadMs: { software: 0.3, gpu: 0.1 },
  startUpMs: { software: 2000, gpu: 2000 },
} as const;
type Goal = { readonly software: number | undefined; readonly gpu: number | undefined };

/** Share of the copy bandwidth that decode should reach on a GPU, by minimum number of parameters. */
const bandwidthGoals = [
  { parameters: 7e9, goal: 0.7 },
  { parameters: 1e9, goal: 0.45 },
] as const;

/** The figures of a report that have a goal on its kind of adapter. */
export function figuresOf({ adapter, models, overhead, startUp }: MeasuredReport): Figure[] {
  const kind = adapter.software ? 'software' : 'gpu';
  const figures: Figure[] = [];
  const add = (
    name: string,
    values: { ours: number | undefined; peer?: number | undefined },
    wanted: Figure['wanted'],
    goal: number | undefined,
  ) => {
    const { ours, peer } = values;
    // Incomplete measurements and comparisons are left out.
    if (ours === undefined || goal === undefined || ('peer' in values && peer === undefined)) return;
    const ratio = roundFigure(peer === undefined ? ours : ours / peer);
    const met = wanted === 'at least' ? ratio >= goal : ratio <= goal;
    figures.push({ figure: name, ours, ...(peer === undefined ? {} : { peer }), ratio, goal, wanted, met });
  };
  const goalOf = (goal: Goal) => goal[kind];
  for (const model of models) {
    const { model: name, prefix } = model;
    const streamRate = (count: number) => model.streams.find((one) => one.streams === count)?.tokensPerSecond;
    add(
      `${name} 8 streams t/s`,
      { ours: streamRate(8), peer: streamRate(1) },
      'at least',
      goalOf(goals.streams),
    );
    if (prefix) {
      const values = { ours: prefix.repeatedMs, peer: prefix.coldMs };
      add(
        `${name} first token ms, ${prefix.prefixTokens} tokens repeated`,
        values,
        'at most',
        goalOf(goals.prefix),
      );
    }
    const growthAt = (context: number) => model.growth.find((one) => one.context === context);
    add(
      `${name} attention GFLOP/s at 4096`,
      { ours: growthAt(4096)?.attentionGflops, peer: growthAt(512)?.attentionGflops },
      'at least',
      goalOf(goals.attentionGrowth),
    );
    add(
      `${name} decode t/s at 4096`,
      { ours: growthAt(4096)?.decodeTokensPerSecond, peer: growthAt(128)?.decodeTokensPerSecond },
      'at least',
      goalOf(goals.decodeGrowth),
    );
    if (kind === 'gpu') {
      const goal = bandwidthGoals.find(({ parameters }) => model.parameters >= parameters)?.goal;
      add(`${name} decode, part of copy bandwidth`, { ours: bestCopyShare(model) }, 'at least', goal);
    }
  }
  add('host overhead ms/token', { ours: overhead?.cpuMsPerToken }, 'at most', goalOf(goals.overheadMs));
  add('start to first text ms', { ours: startUp?.firstTextMs }, 'at most', goalOf(goals.startUpMs));
  return figures;
}

/** The best share over all measured contexts. */
function bestCopyShare({ contexts }: ModelFigures): number | undefined {
  return contexts.length === 0 ? undefined : Math.max(...contexts.map((one) => one.partOfCopyBandwidth));
}
