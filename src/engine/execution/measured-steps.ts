/** Steps in which choices of kernels are measured. Tokens are those of slot 0. */
import { greedySampling, type Sampling } from '../types.ts';
import type { PlanContext } from './plan-context.ts';
import type { MeasuredStep } from './measured-choice.ts';

/** Prompt rows that represent "any number". */
const promptRows = 64;

type Planned = Pick<PlanContext, 'graph' | 'memory'>;

/** A token that is decoded at a position. */
export const decodeStep = (name: string, position: number): MeasuredStep => ({
  name,
  compose(step) {
    step.sample(step.decodeToken(0, position, 0), 0, position + 1, greedySampling);
  },
});

/** Rows of a prompt, or of a text to embed. */
export const promptStep = (
  { graph }: Pick<PlanContext, 'graph'>,
  name: string,
  { rows, first }: { rows: number; first: number },
): MeasuredStep => ({
  name,
  compose(step) {
    const { embedding } = graph.shape;
    const row = embedding
      ? step.encodeSequence(
          Array.from({ length: rows }, () => 0),
          0,
          embedding,
        )
      : step.prefillTokens([], first, rows, 0);
    step.sample(row, 0, first + rows, greedySampling);
  },
});

/** One row, unless `promptOnly`, and many: for kernels that run with any number of them. */
export function rowSteps(context: Planned, { promptOnly = false } = {}): MeasuredStep[] {
  const { stepTokens, context: length } = context.memory.capacity;
  const rows = Math.min(promptRows, stepTokens, length);
  const many = promptStep(context, `${rows} rows`, { rows, first: 0 });
  if (context.graph.shape.embedding || promptOnly) return [many];
  return [decodeStep('1 row', 0), many];
}

/** A decoded token that is sampled in this way. */
export const sampleStep = (name: string, sampling: Partial<Sampling>, flags = 0): MeasuredStep => ({
  name,
  compose(step) {
    step.sample(step.decodeToken(0, 0, 0), 0, 1, { ...greedySampling, ...sampling }, flags);
  },
});
