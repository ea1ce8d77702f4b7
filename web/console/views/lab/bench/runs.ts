import type { components } from '../../../../api/schema.d.ts';

export type BenchRequest = components['schemas']['BenchRequest'];
export type BenchResult = components['schemas']['BenchResult'];
export type BenchLine = components['schemas']['BenchLine'];
export type BenchRound = Extract<BenchLine, { stage: 'round' }>;
export type BenchStage = Extract<BenchLine, { stage: string }>['stage'];

export interface BenchRun {
  readonly id: number;
  readonly request: BenchRequest;
  /** A short run for component times, without a verdict. */
  readonly isMeasureOnly: boolean;
  /** In ms since the Unix epoch. */
  readonly startedAt: number;
  readonly endedAt?: number;
  readonly stage: BenchStage;
  readonly rounds: readonly BenchRound[];
  readonly result?: BenchResult;
  readonly error?: unknown;
  readonly wasStopped?: true;
}

/** Result of the newest finished run. */
export const latestResult = (runs: readonly BenchRun[]): BenchResult | undefined =>
  runs.findLast(({ result }) => result !== undefined)?.result;

const stageTexts: Readonly<Record<BenchStage, string>> = {
  waiting: 'waits for running completions',
  peaks: 'measures the peak rates of the adapter',
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
    : stageTexts[stage];
}
