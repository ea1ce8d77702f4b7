/** Parity run on the live graph: each bound component on captured activations, then the logits. */
import {
  feedbackToken,
  greedySampling,
  klDivergence,
  type LabKernel,
  type StepPlans,
  type Runner,
} from '../../engine/index.ts';
import { pageTokens } from '../../../kernels/rope-kv-write.ts';
import { argmax } from '../../util/argmax.ts';
import { elementsOf } from '../gate/elements.ts';
import { describeExcess, measureErrors, isRowOverLimit } from '../gate/output-errors.ts';
import { resolveTolerance } from '../ops/descriptor.ts';
import { labOps } from '../ops/index.ts';
import type { ParityCase, ParityMode, ParityRunResult, Tolerance } from '../types.ts';
import { observeStep } from './capture.ts';

type Component = ParityRunResult['components'][number];

/** Number of positions whose logits are compared. */
const comparedPositions = 64;
/** End of the compared positions, if the context is long enough. */
const maxPosition = 576;
/** Tokens before an observed step. */
const contextTokens = 500;
/** Maximum number of text tokens that a run uses. */
export const maxTextTokens = maxPosition;
/** Rows of an observed prefill step: few, because the oracle computes each in float64. */
const prefillRows = 3;

/**
 * Compares every bound component with its oracle, in a decode step and in a prefill step.
 * @param standIns unfused kernels that the planner added; they are not compared
 */
export async function componentParity(
  runner: Runner,
  bound: StepPlans,
  text: readonly number[],
  { mode, standIns, signal }: { mode: ParityMode; standIns: ReadonlySet<LabKernel>; signal: AbortSignal },
): Promise<Component[]> {
  const worst = new Map<string, Component>();
  for (const [plan, count] of [
    [bound.singleToken, 1],
    [bound.multiToken, prefillRows],
  ] as const) {
    signal.throwIfAborted();
    const observations = await observeStep(runner, plan, text, {
      count,
      context: contextTokens,
      wants: ({ kernel }) => !standIns.has(kernel),
    });
    for (const { observed, parityCase } of observations) {
      // The oracle blocks the thread: let other tasks run between two components.
      await new Promise((resolve) => setImmediate(resolve));
      signal.throwIfAborted();
      const { lab, after } = observed;
      const tolerance = resolveTolerance(lab.kernel.contract, lab.format, mode);
      const one = {
        ...compareWithOracle(parityCase, lab.kernel.contract.op, after, tolerance),
        nmse_limit: tolerance.nmse,
      };
      const previous = worst.get(lab.target);
      if (!previous || one.nmse > previous.nmse || !one.ok) {
        worst.set(lab.target, { id: lab.target, kernel: lab.kernel.name, ...one });
      }
    }
  }
  return [...worst.values()];
}

function compareWithOracle(
  parityCase: ParityCase,
  op: string,
  after: Readonly<Record<string, ArrayBuffer>>,
  tolerance: Tolerance,
): { nmse: number; max_abs: number; ok: boolean } {
  const labOp = labOps.get(op);
  if (!labOp) throw new Error(`no oracle for op '${op}'`);
  const expected = labOp.oracle(parityCase);
  let result = { nmse: 0, max_abs: 0, ok: true };
  for (const binding of labOp.contract.bindings) {
    const output = expected[binding.name];
    const contents = after[binding.name];
    if (!output || !contents) continue;
    const { values } = elementsOf(binding.dtype ?? 'f32', paddedWords(contents));
    const rows = Math.max(1, parityCase.dims['tokens'] ?? 1);
    const errors = measureErrors(
      output,
      values,
      Math.max(1, Math.floor(output.values.length / rows)),
      tolerance,
    );
    const ok =
      describeExcess(errors, tolerance).length === 0 &&
      !isRowOverLimit(errors, tolerance) &&
      errors.nonFiniteIndex < 0;
    result = {
      nmse: Math.max(result.nmse, errors.nmse),
      max_abs: Math.max(result.max_abs, errors.maxAbs),
      ok: result.ok && ok,
    };
  }
  return result;
}

const paddedWords = (contents: ArrayBuffer): Uint32Array<ArrayBuffer> => {
  const words = new Uint32Array(Math.ceil(contents.byteLength / 4));
  new Uint8Array(words.buffer).set(new Uint8Array(contents));
  return words;
};

/**
 * Mean KL divergence (in nats, bound from built-in distribution) and top-1 agreement over positions of a text. Covers
 * prefill and decode, steps with several sequences, and positions near the start and far from it.
 */
export async function logitsParity(
  runner: Runner,
  bound: StepPlans,
  text: readonly number[],
  signal: AbortSignal,
): Promise<ParityRunResult['logits']> {
  const builtin: StepPlans = { singleToken: runner.plan, multiToken: runner.plan, destroy() {} };
  const { capacity, maxPages } = runner.memory;
  const maxTokens = Math.min(text.length, capacity.context, Math.min(maxPages, capacity.pages) * pageTokens);
  const tokens = text.slice(0, Math.min(maxPosition, maxTokens));
  const expected = await logitsOf(runner, builtin, tokens, signal);
  const got = await logitsOf(runner, bound, tokens, signal);
  let kl = 0;
  let agreeing = 0;
  for (const [index, row] of expected.entries()) {
    const boundRow = got[index] as Float32Array;
    const divergence = klDivergence(row, boundRow);
    kl += Number.isFinite(divergence) ? divergence : Number.POSITIVE_INFINITY;
    if (argmax(row) === argmax(boundRow)) agreeing += 1;
  }
  return { kl: kl / expected.length, top1_agreement: agreeing / expected.length, positions: expected.length };
}

/** Logits of `comparedPositions` positions of the tokens, or of all when there are fewer. */
async function logitsOf(
  runner: Runner,
  plans: StepPlans,
  tokens: readonly number[],
  signal: AbortSignal,
): Promise<Float32Array[]> {
  const { capacity, maxPages } = runner.memory;
  const pages = Array.from({ length: Math.min(maxPages, capacity.pages) }, (_, page) => page);
  // Use the last slot with its pages in reverse order: a kernel that ignores slots or pages then reads wrong data.
  const last = capacity.slots - 1;
  for (let other = 0; other < last; other++) runner.setPages(other, pages);
  runner.setPages(last, pages.toReversed());
  const step = runner.newStep();
  const rows: Float32Array[] = [];
  const run = async () => {
    signal.throwIfAborted();
    const plan = runner.planOf(step.dims, plans);
    if (step.dims.samples > 0) rows.push(...(await runner.logits(step, plan)));
    else await runner.submit(step, plan);
  };
  /** Runs prefill rows; the last `sampled` of them are compared. */
  const runPrefill = async (first: number, count: number, sampled: number) => {
    step.clear();
    const row = step.prefillTokens(tokens, first, count, last);
    for (let n = count - sampled; n < count; n++)
      step.sample(row - (count - 1) + n, last, first + n + 1, greedySampling);
    await run();
  };

  const compared = Math.min(comparedPositions, tokens.length);
  const decoded = Math.floor(compared / 2);
  // Every step has room for this many rows of logits.
  const chunk = Math.min(8, capacity.stepTokens, compared - decoded);
  const nearCount = compared - decoded - chunk;
  for (let first = 0; first < nearCount; first += chunk) {
    const count = Math.min(chunk, nearCount - first);
    await runPrefill(first, count, count);
  }
  const farStart = tokens.length - decoded;
  for (let first = nearCount; first < farStart; ) {
    // In steps of maximum size; only the logits after the last one are compared.
    const count = Math.min(capacity.stepTokens, farStart - first);
    const isLast = first + count === farStart;
    await runPrefill(first, count, isLast ? Math.min(chunk, count) : 0);
    first += count;
  }
  // Decode several tokens in one step, each in its own slot, all with the pages of the same sequence.
  const sequences = Math.min(capacity.slots, 8, decoded);
  for (let slot = 0; slot < sequences; slot++) runner.setPages(slot, pages.toReversed());
  step.clear();
  // A recurrent state exists only in the last slot; the other slots decode the first token.
  const hasRecurrentState = runner.memory.caches.some(({ kind }) => kind === 'state');
  const continued = hasRecurrentState ? 1 : sequences;
  for (let n = 0; n < sequences; n++) {
    const isAtStart = n < sequences - continued;
    const [at, slot] = hasRecurrentState
      ? [isAtStart ? 0 : farStart, isAtStart ? n : last]
      : [farStart + n, n];
    step.sample(step.decodeToken(tokens[at] ?? feedbackToken, at, slot), slot, at + 1, greedySampling);
  }
  await run();
  for (let slot = 0; slot < sequences && slot < last; slot++) runner.setPages(slot, pages);
  for (let at = farStart + continued; at < tokens.length; at++) {
    step.clear();
    step.sample(step.decodeToken(tokens[at] ?? feedbackToken, at, last), last, at + 1, greedySampling);
    await run();
  }
  return rows;
}
