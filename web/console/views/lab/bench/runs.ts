import type { components } from '../../../api/schema.d.ts';

export type BenchRequest = components['schemas']['BenchRequest'];
export type BenchResult = components['schemas']['BenchResult'];
export type BenchLine = components['schemas']['BenchLine'];
export type BenchRound = Extract<BenchLine, { stage: 'round' }>;
export type BenchStage = Extract<BenchLine, { stage: string }>['stage'];

export interface BenchRun {
  readonly id: number;
  readonly request: BenchRequest;
  /** A short run whose times are wanted, and no verdict. */
  readonly isMeasure: boolean;
  /** In ms since 1970. */
  readonly startedAt: number;
  readonly endedAt?: number;
  readonly stage: BenchStage;
  readonly rounds: readonly BenchRound[];
  readonly result?: BenchResult;
  readonly error?: unknown;
  readonly wasStopped?: true;
}

/** What the newest run with an outcome found. */
export const latestResult = (runs: readonly BenchRun[]): BenchResult | undefined =>
  runs.findLast(({ result }) => result !== undefined)?.result;

const stageWords: Readonly<Record<BenchStage, string>> = {
  waiting: 'waits until no completion runs',
  peaks: 'measures what the adapter can do at most',
  warm_up: 'warms up',
  round: 'times rounds',
  outputs: 'compares outputs',
  components: 'times every component',
  done: 'done',
};

export function stageText({ stage, rounds }: BenchRun): string {
  const last = rounds.at(-1);
  return stage === 'round' && last
    ? `times rounds: ${last.round} of ${last.least === last.most ? last.most : `${last.least} to ${last.most}`}`
    : stageWords[stage];
}
