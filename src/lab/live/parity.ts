/** Parity of what is bound, on the live graph: each component on real activations, then the logits. */
import { feedback, greedy, klDivergence, type Plan, type Plans, type Runner } from '../../engine/index.ts';
import { elementsOf } from '../gate/elements.ts';
import { faultsOf, measure, rowFails } from '../gate/verdict.ts';
import { tolerances } from '../ops/descriptor.ts';
import { labOps } from '../ops/index.ts';
import type { ParityCase, ParityMode, ParityRunResult, Tolerance } from '../types.ts';
import { observeStep } from './capture.ts';

type Component = ParityRunResult['components'][number];

const slot = 0;
/** Positions whose logits are compared. */
export const comparedPositions = 64;
/** Rows of a prompt's step that is looked at: few, because the oracle computes every one in double precision. */
const promptRows = 3;

/** Tolerance of an op under a mode. */
export function toleranceOf(
  exactness: keyof typeof tolerances,
  { mode, tolerance_scale = 1 }: ParityMode,
): Tolerance {
  const { nmse, max_abs, matched_ratio } = tolerances[exactness];
  const scale = tolerance_scale * (mode === 'strict' ? 0.1 : 1);
  return { nmse: nmse * scale, max_abs: max_abs * Math.sqrt(scale), matched_ratio };
}

/** Every bound component against its oracle, in a decoded token's step and in a prompt's. */
export async function componentParity(
  runner: Runner,
  bound: Plans,
  text: readonly number[],
  mode: ParityMode,
  signal: AbortSignal,
): Promise<Component[]> {
  const worst = new Map<string, Component>();
  for (const [plan, count] of [
    [bound.one, 1],
    [bound.many, promptRows],
  ] as const) {
    signal.throwIfAborted();
    const looks = await observeStep(runner, plan, text, {
      count,
      wants: ({ kernel }) => !kernel.name.startsWith('stub.'),
    });
    for (const { observed, given } of looks) {
      // The oracle holds the thread; others want it, too.
      await new Promise((resolve) => setImmediate(resolve));
      signal.throwIfAborted();
      const { lab, after } = observed;
      const one = compare(
        given,
        lab.kernel.contract.op,
        after,
        toleranceOf(lab.kernel.contract.exactness, mode),
      );
      const before = worst.get(lab.target);
      if (!before || one.nmse > before.nmse || !one.ok) {
        worst.set(lab.target, { id: lab.target, kernel: lab.kernel.name, ...one });
      }
    }
  }
  return [...worst.values()];
}

function compare(
  given: ParityCase,
  op: string,
  after: Readonly<Record<string, ArrayBuffer>>,
  tolerance: Tolerance,
): { nmse: number; max_abs: number; ok: boolean } {
  const labOp = labOps.get(op);
  if (!labOp) throw new Error(`no oracle for op '${op}'`);
  const expected = labOp.oracle(given);
  let result = { nmse: 0, max_abs: 0, ok: true };
  for (const binding of labOp.contract.bindings) {
    const output = expected[binding.name];
    const contents = after[binding.name];
    if (!output || !contents) continue;
    const { values } = elementsOf(binding.dtype ?? 'f32', wordsIn(contents));
    const rows = Math.max(1, given.dims['tokens'] ?? 1);
    const errors = measure(output, values, Math.max(1, Math.floor(output.values.length / rows)), tolerance);
    const ok =
      faultsOf(errors, tolerance).length === 0 && !rowFails(errors, tolerance) && errors.notFinite < 0;
    result = {
      nmse: Math.max(result.nmse, errors.nmse),
      max_abs: Math.max(result.max_abs, errors.maxAbs),
      ok: result.ok && ok,
    };
  }
  return result;
}

const wordsIn = (contents: ArrayBuffer): Uint32Array<ArrayBuffer> => {
  const words = new Uint32Array(Math.ceil(contents.byteLength / 4));
  new Uint8Array(words.buffer).set(new Uint8Array(contents));
  return words;
};

/**
 * KL divergence (nats, of the bound from the built-in distribution) and top-1 agreement behind each position of a
 * text. Half of the positions are computed as a prompt, half token by token, because kernels may differ there.
 */
export async function logitsParity(
  runner: Runner,
  bound: Plans,
  text: readonly number[],
  signal: AbortSignal,
): Promise<ParityRunResult['logits']> {
  const builtin: Plans = { one: runner.plan, many: runner.plan, destroy() {} };
  const positions = Math.min(comparedPositions, text.length, runner.memory.capacity.context - 1);
  const tokens = text.slice(0, positions);
  const expected = await logitsOf(runner, builtin, tokens, signal);
  const got = await logitsOf(runner, bound, tokens, signal);
  let kl = 0;
  let agreed = 0;
  for (const [index, row] of expected.entries()) {
    const its = got[index] as Float32Array;
    const divergence = klDivergence(row, its);
    kl += Number.isFinite(divergence) ? divergence : Number.POSITIVE_INFINITY;
    if (argmax(row) === argmax(its)) agreed += 1;
  }
  return { kl: kl / expected.length, top1_agreement: agreed / expected.length, positions: expected.length };
}

async function logitsOf(
  runner: Runner,
  plans: Plans,
  tokens: readonly number[],
  signal: AbortSignal,
): Promise<Float32Array[]> {
  const { capacity, maxPages } = runner.memory;
  runner.setPages(
    slot,
    Array.from({ length: Math.min(maxPages, capacity.pages) }, (_, page) => page),
  );
  const step = runner.newStep();
  const rows: Float32Array[] = [];
  const run = async (plan: Plan) => {
    signal.throwIfAborted();
    rows.push(...(await runner.logits(step, plan)));
  };
  // As many rows of logits as a step has room for at least.
  const chunk = Math.min(8, capacity.stepTokens);
  const half = Math.floor(tokens.length / 2);
  for (let first = 0; first < half; first += chunk) {
    const count = Math.min(chunk, half - first);
    step.clear();
    const last = step.prefillTokens(tokens, first, count, slot);
    for (let n = 0; n < count; n++) step.sample(last - (count - 1) + n, slot, first + n + 1, greedy);
    await run(runner.planOf(step.dims, plans));
  }
  for (let at = half; at < tokens.length; at++) {
    step.clear();
    step.sample(step.decodeToken(tokens[at] ?? feedback, at, slot), slot, at + 1, greedy);
    await run(runner.planOf(step.dims, plans));
  }
  return rows;
}

function argmax(values: Float32Array): number {
  let best = 0;
  for (let i = 1; i < values.length; i++) if ((values[i] as number) > (values[best] as number)) best = i;
  return best;
}
