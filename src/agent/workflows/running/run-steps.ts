import { nextStep } from './progress.ts';
import type { Step } from '../definition/ensemble.ts';
import { advanceStep } from './run-step.ts';
import type { Segment } from './segment.ts';
import type { StepResult, StepsResult } from './step-result.ts';

type Advanced = { readonly step: Step; readonly result: StepResult };

/**
 * Runs the steps of a workflow until all have ended, one of them fails, or the segment ends: one after another, or
 * side by side where the workflow allows several agents at a time. A step whose gate suspends the run waits until
 * nothing else is in progress.
 * @param steps with their ids in the run, in running order
 */
export async function runSteps(segment: Segment, steps: readonly Step[]): Promise<StepsResult> {
  return segment.parallel > 1 ? await runSideBySide(segment, steps) : await runInSequence(segment, steps);
}

async function runInSequence(segment: Segment, steps: readonly Step[]): Promise<StepsResult> {
  for (;;) {
    if ((await segment.boundary()) === 'cancelled') return { kind: 'cancelled' };
    const step = nextStep(steps, segment.records);
    if (!step) return { kind: 'completed' };
    const result = await advanceStep(segment, step);
    if (result.kind !== 'go_on') return describeFailure({ step, result });
  }
}

async function runSideBySide(segment: Segment, steps: readonly Step[]): Promise<StepsResult> {
  const inProgress = new Map<string, Promise<Advanced>>();
  let end: Advanced | undefined;
  const advance = (step: Step) => {
    const promise = advanceStep(segment, step).then((result) => ({ step, result }));
    // It is awaited later; without a handler a rejection in between would end the process.
    promise.catch(() => undefined);
    inProgress.set(step.id, promise);
  };
  const waitForOne = async () => {
    const advanced = await Promise.race(inProgress.values());
    inProgress.delete(advanced.step.id);
    if (advanced.result.kind !== 'go_on') end ??= advanced;
  };
  try {
    for (;;) {
      const { requests } = segment;
      if (end || requests.pause || requests.cancel !== undefined) {
        if (inProgress.size > 0) await waitForOne();
        else if (end) return describeFailure(end);
        else if ((await segment.boundary()) === 'cancelled') return { kind: 'cancelled' };
        continue;
      }
      const ready = steps.filter((step) => !inProgress.has(step.id) && isReady(segment, step));
      // No more than may work: what is begun is ended before the run pauses or fails.
      const free = segment.parallel - inProgress.size;
      for (const step of ready.filter((one) => !suspendsRun(segment, one)).slice(0, free)) advance(step);
      const [gated] = ready;
      if (inProgress.size > 0) await waitForOne();
      else if (gated) advance(gated);
      else return { kind: 'completed' };
    }
  } finally {
    await Promise.allSettled(inProgress.values());
  }
}

function isReady({ records }: Segment, { id, needs }: Step): boolean {
  const hasEnded = (one: string) => ['completed', 'skipped'].includes(records.get(one)?.state ?? '');
  return !hasEnded(id) && needs.every(hasEnded);
}

/** Whether a gate of the step, or one in the workflow that it runs, may suspend the run. */
function suspendsRun({ records, workflows }: Segment, { id, gate, workflow }: Step): boolean {
  if (workflow !== undefined && workflows.maySuspend(workflow)) return true;
  const state = records.get(id)?.state;
  return gate !== undefined && gate.kind !== 'approval' && (state === undefined || state === 'waiting');
}

const describeFailure = ({ step, result }: Advanced): StepsResult =>
  result.kind === 'failed'
    ? { kind: 'failed', error: `The step '${step.id}' failed: ${result.error}` }
    : result.kind === 'go_on'
      ? { kind: 'completed' }
      : result;
