/** Captures the inputs and outputs of ops while the resident model runs a step. */
import {
  greedySampling,
  type LabDispatch,
  type ObservedDispatch,
  type Plan,
  type Runner,
} from '../../engine/index.ts';
import type { ParityCase, TensorData } from '../types.ts';
import { extentOf, type StepExtent, tensorOf } from './extents.ts';

const slot = 0;
/** Default number of tokens before the observed step, so that attention has a context. */
const defaultContextTokens = 37;

/** Prefills slot 0 with tokens, on non-contiguous pages with room for `reserveTokens` more tokens. Returns the extent. */
async function prefillContext(
  runner: Runner,
  tokens: readonly number[],
  reserveTokens: number,
): Promise<StepExtent> {
  const { capacity, maxPages } = runner.memory;
  const pages = Math.min(capacity.pages, maxPages, Math.ceil((tokens.length + reserveTokens) / 32));
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
 * Runs one step of the resident model and returns what the lab kernels of a plan read and wrote. The device must be
 * free.
 * @param count rows of the step: 1 is a decode step, more are a prefill step
 * @param context tokens before the step
 */
export async function observeStep(
  runner: Runner,
  plan: Plan,
  text: readonly number[],
  options: { count: number; context?: number; wants: (lab: LabDispatch) => boolean },
): Promise<readonly { observed: ObservedDispatch; parityCase: ParityCase }[]> {
  const { capacity } = runner.memory;
  const maxContext = Math.min(capacity.context, capacity.pages * 32) - options.count;
  const contextTokens = Math.max(
    0,
    Math.min(options.context ?? defaultContextTokens, maxContext, text.length - options.count),
  );
  const filled = await prefillContext(runner, text.slice(0, contextTokens), options.count);
  const extent = { ...filled, tokens: options.count, positions: contextTokens + options.count };
  const step = runner.newStep();
  step.clear();
  const row =
    options.count === 1
      ? step.decodeToken(text[contextTokens] ?? 0, contextTokens, slot)
      : step.prefillTokens(text, contextTokens, options.count, slot);
  step.sample(row, slot, contextTokens + options.count, greedySampling);
  // Nodes after the last layer process only the sampled row.
  const extentFor = (lab: LabDispatch): StepExtent =>
    usesSampledRowsOnly(lab) ? { ...extent, tokens: step.dims.samples } : extent;
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
  return observed.map((one) => ({ observed: one, parityCase: buildCase(one, extentFor(one.lab)) }));
}

/** Whether the dispatch processes only the rows whose logits are needed. */
const usesSampledRowsOnly = ({ target }: LabDispatch): boolean =>
  !target.startsWith('layers.') && target !== 'embed';

function buildCase({ lab, before }: ObservedDispatch, extent: StepExtent): ParityCase {
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
