/** Compares a loaded model's kernels with the oracle, replaces wrong ones, and remembers the result. */
import type { MatmulFamily } from '../../../kernels/matmul.ts';
import type { Plan } from '../execution/plan.ts';
import type { LoadOptions, PreparedModel } from '../loading/prepare-model.ts';
import { EngineError, type ReplacedKernel } from '../types.ts';
import { kernelName } from './excluded-kernels.ts';
import { planKey, saveVerified } from './verified-file.ts';
import { type VerifiedRunner, verifyPlan } from './verify.ts';
import { sampleSizes } from './weight-samples.ts';

/** Part of the load time that a sample may take, and the least time that it may always take, in ms. */
const maxLoadPart = 0.08;
const minBudgetMs = 2000;
/** Each round replaces at least one kernel of each wrong result. */
const maxRounds = 12;

interface Subject {
  readonly runner: VerifiedRunner;
  /** Time since loading began, in ms. */
  loadMs(): number;
  plan(): Plan;
  /** Plans again without these kernels. */
  replan(without: Iterable<string>): Promise<MatmulFamily>;
}

/**
 * @returns the kernels that are not used, now and by earlier verifications on this adapter
 * @throws EngineError `unsupported_model` when a wrong kernel has no replacement
 */
export async function verifyKernels(
  options: LoadOptions,
  loading: PreparedModel,
  subject: Subject,
): Promise<readonly ReplacedKernel[]> {
  const { gpu, wgsl, store, onProgress, onNotice } = options;
  const { verifyMode: mode, verified, seed, samples, weights } = loading;
  const excluded: Record<string, string> = { ...verified.excluded };
  const replaced = () => Object.entries(excluded).map(([kernel, reason]) => ({ kernel, reason }));
  requireUsable(subject.plan(), excluded);
  const isKnown = () => mode === 'sample' && verified.passed[planKey(subject.plan())] !== undefined;
  if (mode === 'off' || isKnown()) {
    samples.clear();
    return replaced();
  }
  const start = performance.now();
  const budgetMs =
    mode === 'full' ? Number.POSITIVE_INFINITY : Math.max(minBudgetMs, subject.loadMs() * maxLoadPart);
  let { family } = loading;
  for (let round = 0; ; round++) {
    onProgress({ stage: 'verify', done: round, total: maxRounds });
    const { wrong, compared, layers } = await verifyPlan(subject.runner, {
      plan: subject.plan(),
      family,
      weights,
      samples,
      size: sampleSizes[mode],
      budgetMs,
      seed,
    });
    if (wrong.length === 0) {
      const seconds = ((performance.now() - start) / 1000).toFixed(1);
      onNotice?.(
        `compared ${compared} results of ${layers} layers with the CPU oracle in ${seconds} s: correct (seed ${seed})`,
      );
      break;
    }
    for (const { kernel, op, at, reason } of wrong) {
      onNotice?.(`wrong results on ${gpu.facts.description}: ${op} kernel ${kernel}, ${at}: ${reason}`);
      excluded[kernel] = `${at}: ${reason}`;
    }
    family = await subject.replan(Object.keys(excluded));
    requireUsable(subject.plan(), excluded);
    if (round + 1 >= maxRounds) throw refusal(wrong[0]?.op ?? '', wrong[0]?.kernel ?? '', excluded);
  }
  onProgress({ stage: 'verify', done: maxRounds, total: maxRounds });
  samples.clear();
  const passed = { ...verified.passed, [planKey(subject.plan())]: seed };
  await (store && saveVerified(store, gpu, wgsl, { excluded, passed }))?.catch((error: unknown) =>
    onNotice?.(`the verification could not be saved, the next start repeats it: ${String(error)}`),
  );
  return replaced();
}

/** @throws EngineError when the plan has an excluded kernel, as there is no other */
function requireUsable({ dispatches }: Plan, excluded: Readonly<Record<string, string>>): void {
  for (const { op, choices } of dispatches) {
    for (const { builtin } of choices) {
      if (!builtin) continue;
      const name = kernelName(builtin.source, builtin.variant);
      if (Object.hasOwn(excluded, name)) throw refusal(op, name, excluded);
    }
  }
}

const refusal = (op: string, kernel: string, excluded: Readonly<Record<string, string>>): EngineError =>
  new EngineError(
    'unsupported_model',
    `the ${op} kernel ${kernel} gives wrong results on this adapter and has no replacement (${excluded[kernel]}); ` +
      'update the GPU driver, select another adapter with --adapter, or accept wrong results with --verify off',
  );
