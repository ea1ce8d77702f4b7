/** A scheduler over a simulated GPU, and requests for it. */
import type { ReaderLimits } from '../../src/engine/scheduling/reader-backpressure.ts';
import { Scheduler } from '../../src/engine/scheduling/scheduler.ts';
import { zeroCounts } from '../../src/engine/scheduling/scheduler-counts.ts';
import type { ConstraintLimits } from '../../src/engine/scheduling/mask-wait-list.ts';
import { type GenerateRequest, greedySampling, type RequestObserver } from '../../src/engine/types.ts';
import { newSequence, read, SimulatedRunner } from './simulated-runner.ts';

export const text = (...codes: number[]): number[] => codes.map((code) => 97 + (code % 12));
export const run = (from: number, count: number): number[] =>
  text(...Array.from({ length: count }, (_, i) => (from + i) * (i + 3)));

export const request = (changes: Partial<GenerateRequest> = {}): GenerateRequest => ({
  prompt: run(1, 20),
  maxTokens: 40,
  sampling: greedySampling,
  stop: [],
  ...changes,
});

/** A request whose answer does not end early. */
export const long = (seed: number, maxTokens: number, prompt = run(seed, 20)): GenerateRequest =>
  request({ prompt, maxTokens, sampling: { ...greedySampling, seed }, ignoreEnd: true });

interface Options {
  pages?: number;
  slots?: number;
  stepTokens?: number;
  speculation?: 'auto' | 'always' | 'off';
  reader?: Partial<ReaderLimits>;
  constraint?: Partial<ConstraintLimits>;
  retainedStates?: number | undefined;
  /** As on a GPU. */
  separatesDecodeRows?: boolean;
  /** A draft model, with the fraction of its drafts that are wrong. */
  draft?: { wrong?: number; pages?: number; context?: number } | undefined;
  observer?: RequestObserver;
  clientWeights?: ReadonlyMap<string, number>;
}

export function world({
  pages = 64,
  slots = 4,
  stepTokens = 64,
  speculation = 'off',
  reader = {},
  // A busy machine must not affect what a test sees.
  constraint = { budgetMs: 600_000 },
  retainedStates,
  separatesDecodeRows = false,
  draft,
  observer,
  clientWeights,
}: Options = {}) {
  const runner = new SimulatedRunner(
    {
      context: 4096,
      slots,
      stepTokens,
      pages,
      ...(retainedStates === undefined ? {} : { retainedStates }),
    },
    { separatesDecodeRows },
  );
  const counts = zeroCounts();
  const { clock } = runner;
  const drafter =
    draft &&
    new SimulatedRunner(
      { context: draft.context ?? 4096, slots, stepTokens, pages: draft.pages ?? pages },
      { wrong: draft.wrong ?? 0, clock, separatesDecodeRows },
    );
  if (drafter) {
    const submitChain = drafter.submitChain.bind(drafter);
    drafter.submitChain = (steps) => {
      if (!runner.isIdle) throw new Error('the draft model goes on from tokens that are on their way');
      return submitChain(steps);
    };
  }
  const failures: string[] = [];
  const onFailure = (reason: string) => failures.push(reason);
  const options = { speculation, draft: drafter, counts, reader, constraint, clientWeights, onFailure };
  const scheduler = new Scheduler(runner, () => runner.time, options);
  const add = (one: GenerateRequest) => {
    const sequence = newSequence(one, runner, observer);
    scheduler.add(sequence);
    return sequence;
  };
  return {
    runner,
    drafter,
    scheduler,
    counts,
    failures,
    add,
    answer: async (one: GenerateRequest) => read(add(one)),
  };
}

/** Lets the event loop turn this many times. */
export async function turns(count: number): Promise<void> {
  for (let n = 0; n < count; n++) await new Promise((resolve) => setImmediate(resolve));
}
