/** Real inputs of the graph's ops, taken from the resident model while it computes. */
import { greedy, type LabDispatch, type Observed, type Plan, type Runner } from '../../engine/index.ts';
import type { ParityCase, TensorData } from '../types.ts';
import { extentOf, type StepExtent, tensorOf } from './extents.ts';

const slot = 0;
/** Tokens before the step that is looked at, unless more are asked for: attention has something to attend to. */
const usualContext = 37;

/** Fills slot 0 with the beginning of a text, on scattered pages with room for some more, and tells how far it goes. */
async function fillContext(runner: Runner, tokens: readonly number[], more: number): Promise<StepExtent> {
  const { capacity, maxPages } = runner.memory;
  const pages = Math.min(capacity.pages, maxPages, Math.ceil((tokens.length + more) / 32));
  runner.setPages(
    slot,
    Array.from({ length: pages }, (_, index) => pages - 1 - index),
  );
  const step = runner.newStep();
  const { stepTokens } = capacity;
  for (let first = 0; first < tokens.length; first += stepTokens) {
    step.clear();
    step.prefillTokens(tokens, first, Math.min(stepTokens, tokens.length - first), slot);
    await runner.submit(step, runner.plan);
  }
  return { tokens: 0, positions: tokens.length, pages, slots: 1 };
}

/**
 * What the lab kernels of a plan read and wrote in one step of the resident model. The device must be free.
 * @param count rows of the step; 1 is a decoded token, more are a prompt's
 * @param context tokens before it
 */
export async function observeStep(
  runner: Runner,
  plan: Plan,
  text: readonly number[],
  options: { count: number; context?: number; wants: (lab: LabDispatch) => boolean },
): Promise<readonly { observed: Observed; given: ParityCase }[]> {
  const { capacity } = runner.memory;
  const room = Math.min(capacity.context, capacity.pages * 32) - options.count;
  const before = Math.max(0, Math.min(options.context ?? usualContext, room, text.length - options.count));
  const filled = await fillContext(runner, text.slice(0, before), options.count);
  const extent = { ...filled, tokens: options.count, positions: before + options.count };
  const step = runner.newStep();
  step.clear();
  const row =
    options.count === 1
      ? step.decodeToken(text[before] ?? 0, before, slot)
      : step.prefillTokens(text, before, options.count, slot);
  step.sample(row, slot, before + options.count, greedy);
  // Nodes behind the last layer see the sampled row alone.
  const extentFor = (lab: LabDispatch): StepExtent =>
    isSampled(lab) ? { ...extent, tokens: step.dims.samples } : extent;
  const observed = await runner.observe(step, plan, (lab) => {
    if (!options.wants(lab)) return undefined;
    const storage = lab.kernel.contract.bindings.filter(({ role }) => role !== 'uniform');
    const sizes = (roles: readonly string[]) =>
      Object.fromEntries(
        storage
          .filter(({ role }) => roles.includes(role))
          .map((binding) => [binding.name, extentOf(lab, binding, extentFor(lab))]),
      );
    return { before: sizes(['in', 'inout']), after: sizes(['out', 'inout']) };
  });
  return observed.map((one) => ({ observed: one, given: caseOf(one, extentFor(one.lab)) }));
}

/** The dispatch works on rows whose logits are wanted. */
const isSampled = ({ target }: LabDispatch): boolean => !target.startsWith('layers.') && target !== 'embed';

function caseOf({ lab, before }: Observed, extent: StepExtent): ParityCase {
  const tensors: Record<string, TensorData> = {};
  for (const binding of lab.kernel.contract.bindings) {
    const contents = before[binding.name];
    if (contents) tensors[binding.name] = tensorOf(binding, contents);
  }
  const { tokens, positions } = extent;
  const window = lab.params['window'] || Number.POSITIVE_INFINITY;
  return {
    name: `captured ${lab.target}, ${tokens} ${tokens === 1 ? 'token' : 'tokens'}`,
    dims: { ...lab.dims, tokens, context: Math.min(positions - (tokens - 1) / 2, window) },
    params: lab.params,
    tensors,
    ...(lab.format === undefined ? {} : { format: lab.format }),
  };
}
