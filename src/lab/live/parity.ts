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
import { type Random, randomInteger, seededRandom } from '../../util/random.ts';
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
 * prefill and decode, steps with several sequences, positions near the start and far from it, and the end of the context.
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
  const random = seededRandom(tokens.reduce((sum, token) => (Math.imul(sum, 31) + token) >>> 0, 1));
  const far = farPositions(runner, tokens.length, random);
  await prepareCache(runner, tokens.length, { random, signal });
  // The bound kernels run first: after the built-in ones, the cache would already hold correct keys and values.
  const got = await logitsOf(runner, bound, { tokens, far, signal });
  const expected = await logitsOf(runner, builtin, { tokens, far, signal });
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

/** Pages beyond the text that are filled: each takes four copies in every layer. */
const maxFarPages = 256;
/** Tokens decoded at far positions. */
const farCount = 5;

/** Positions after the text, up to the end of the context and at the edges of a page. */
function farPositions(runner: Runner, textTokens: number, random: Random): number[] {
  const { capacity, maxPages } = runner.memory;
  const context = Math.min(capacity.context, Math.min(maxPages, capacity.pages) * pageTokens);
  if (context - textTokens < farCount) return [];
  const between = () => textTokens + randomInteger(random, context - textTokens);
  const edge = Math.max(textTokens + 1, Math.floor(between() / pageTokens) * pageTokens);
  const last = context - 1;
  const all = new Set([edge - 1, Math.min(edge, last), last]);
  // Drawn again where it is one of the others, so that every run compares the same number of positions.
  while (all.size < farCount) all.add(between());
  return [...all].sort((a, b) => a - b);
}

/** Fills the cache with keys and values of other tokens: the positions of the text, and pages behind it. */
async function prepareCache(
  runner: Runner,
  textTokens: number,
  { random, signal }: { random: Random; signal: AbortSignal },
): Promise<void> {
  const { capacity, maxPages } = runner.memory;
  const pages = reversedPages(runner);
  const slot = capacity.slots - 1;
  runner.setPages(slot, pages);
  const step = runner.newStep();
  const { vocabulary } = runner.graph.shape;
  const others = Array.from({ length: textTokens }, () => randomInteger(random, vocabulary));
  for (let first = 0; first < textTokens; first += capacity.stepTokens) {
    signal.throwIfAborted();
    step.clear();
    step.prefillTokens(others, first, Math.min(capacity.stepTokens, textTokens - first), slot);
    await runner.submit(step, runner.plan);
  }
  const textPages = Math.floor(textTokens / pageTokens);
  const farPages = pages.slice(textPages + 1);
  if (textPages === 0 || farPages.length === 0 || maxPages === 0) return;
  signal.throwIfAborted();
  step.clear();
  // In a long context, the last pages and some before them.
  const share = Math.max(1, farPages.length / maxFarPages);
  for (let n = 0; n * share < farPages.length; n++) {
    const to = farPages[farPages.length - 1 - Math.floor(n * share)] as number;
    step.pageCopies.push({ from: pages[randomInteger(random, textPages)] as number, to });
  }
  step.prefillTokens(others, 0, 1, slot);
  await runner.submit(step, runner.plan);
}

/** The last slot has its pages in reverse order: a kernel that ignores slots or pages then reads wrong data. */
function reversedPages({ memory: { capacity, maxPages } }: Runner): number[] {
  return Array.from({ length: Math.min(maxPages, capacity.pages) }, (_, page) => page).toReversed();
}

/** Logits of `comparedPositions` positions of the tokens, or of all when there are fewer, and of tokens at far positions. */
async function logitsOf(
  runner: Runner,
  plans: StepPlans,
  { tokens, far, signal }: { tokens: readonly number[]; far: readonly number[]; signal: AbortSignal },
): Promise<Float32Array[]> {
  const { capacity } = runner.memory;
  const reversed = reversedPages(runner);
  const pages = reversed.toReversed();
  const last = capacity.slots - 1;
  for (let other = 0; other < last; other++) runner.setPages(other, pages);
  runner.setPages(last, reversed);
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
  for (let slot = 0; slot < sequences; slot++) runner.setPages(slot, reversed);
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
  for (const [n, at] of far.entries()) {
    step.clear();
    step.sample(step.decodeToken(tokens[n] ?? 0, at, last), last, at + 1, greedySampling);
    await run();
  }
  return rows;
}
