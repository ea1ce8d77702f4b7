import type { Step } from '../definition/ensemble.ts';
import { runResult, readOutput } from './progress.ts';
import { toStepPromptContext } from './run-context.ts';
import { itemsOf, stepsOf } from './scope.ts';
import type { Segment } from './segment.ts';
import type { StepsResult } from './step-result.ts';

/** A step that consists of others: one that is repeated, or that runs a workflow. */
export const isComposite = ({ foreach, workflow }: Step): boolean =>
  foreach !== undefined || workflow !== undefined;

export type CompositeResult =
  | Exclude<StepsResult, { readonly kind: 'completed' }>
  | { readonly kind: 'completed'; readonly output: unknown };

/**
 * Runs the steps that a step consists of, as far as they have not ended.
 * @throws AgentError where its list or the inputs of its workflow are invalid
 */
export async function runComposite(segment: Segment, step: Step): Promise<CompositeResult> {
  return step.foreach === undefined ? await runWorkflow(segment, step) : await repeat(segment, step);
}

/** Runs a step for each item of a list. The output is the list of outputs; null for an item without one. */
async function repeat(segment: Segment, step: Step): Promise<CompositeResult> {
  const { row, records, scope } = segment;
  const items = itemsOf(step, toStepPromptContext(row, records, step.id, scope));
  const { foreach: _, when: __, gate: ___, ...repeated } = step;
  const steps = items.map(({ index }): Step => ({ ...repeated, id: `${step.id}[${index}]`, needs: [] }));
  const byStep = new Map(items.map((item) => [`${step.id}[${item.index}]`, item]));
  const result = await segment.runSteps({ ...segment, scope: { ...scope, items: byStep } }, steps);
  if (result.kind !== 'completed') return result;
  return { kind: 'completed', output: steps.map(({ id }) => readOutput(records.get(id)) ?? null) };
}

async function runWorkflow(segment: Segment, step: Step): Promise<CompositeResult> {
  const { row, records, scope, workflows } = segment;
  const { workflow = '' } = step;
  const nested = workflows.nested({ ...step, workflow }, toStepPromptContext(row, records, step.id, scope));
  const steps = stepsOf(nested);
  const { ensemble, prefix } = nested;
  const parallel = Math.min(segment.parallel, ensemble.parallel);
  const result = await segment.runSteps({ ...segment, scope: nested, parallel }, steps);
  if (result.kind !== 'completed') return result;
  const output = ensemble.output && { from: `${prefix}${ensemble.output.from}` };
  return { kind: 'completed', output: runResult({ output, steps }, records) ?? null };
}
