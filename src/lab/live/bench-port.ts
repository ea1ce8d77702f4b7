/** Bench port for the live engine. The device must be free while it is used. */
import {
  greedySampling,
  maxStepSamples,
  type Plan,
  type StepPlans,
  type Runner,
} from '../../engine/index.ts';
import type { BenchPort } from '../bench/port.ts';

const slot = 0;
const stepsInFlight = 2;
/** Any token: the time does not depend on it. */
const anyToken = 0;

interface BenchPortOptions {
  /** FLOPs and bytes of one decoded token for the nodes of a dispatch, at a context length. */
  readonly costOf: (nodes: readonly string[], context: number) => { flops: number; bytes: number };
  /** See `Scheduler`. */
  readonly letOthersRun: () => Promise<boolean>;
  /** Default: the built-in kernels. */
  readonly baseline?: StepPlans | undefined;
}

export function createBenchPort(
  runner: Runner,
  bound: StepPlans | undefined,
  { costOf, letOthersRun, baseline }: BenchPortOptions,
): BenchPort {
  const { capacity, maxPages } = runner.memory;
  const { vocabulary } = runner.graph.shape;
  // With embedding rows streamed from the file, the host must know each token before the step that reads it.
  const maxInFlight = runner.needsTokenIds ? 1 : stepsInFlight;
  const step = runner.newStep();
  const builtin: StepPlans = { singleToken: runner.plan, multiToken: runner.plan, destroy() {} };
  const planOf = (arm: 'baseline' | 'bound'): Plan =>
    runner.planOf(step.dims, (arm === 'bound' ? bound : baseline) ?? builtin);
  const decodeStep = (token: number, position: number) => {
    step.clear();
    step.sample(step.decodeToken(token, position, slot), slot, position + 1, greedySampling);
  };
  const takePages = () =>
    runner.setPages(
      slot,
      Array.from({ length: Math.min(maxPages, capacity.pages) }, (_, page) => page),
    );
  takePages();
  return {
    hasTimestamps: runner.gpu.timestamps,
    isSoftware: runner.gpu.caps.software,
    maxContext: Math.min(capacity.context, capacity.pages * 32),
    vocabulary,
    stepTokens: capacity.stepTokens,
    hasRecurrentState: runner.memory.caches.some(({ kind }) => kind === 'state'),

    async prefill(arm, tokens, part) {
      const start = performance.now();
      const sampled: number[] = [];
      const end = part.first + part.count;
      for (let { first } = part; first < end; first += capacity.stepTokens) {
        const count = Math.min(capacity.stepTokens, end - first);
        const isLast = first + count === tokens.length;
        step.clear();
        const row = step.prefillTokens(tokens, first, count, slot);
        if (isLast) step.sample(row, slot, tokens.length, greedySampling);
        const [token] = await runner.submit(step, planOf(arm));
        if (isLast) sampled.push(token ?? 0);
      }
      return { ms: performance.now() - start, tokens: sampled };
    },

    async decode(arm, context, given) {
      const tokens: number[] = [];
      const pendingSteps: Promise<Uint32Array>[] = [];
      const start = performance.now();
      for (const [n, token] of given.entries()) {
        decodeStep(token, context + n);
        const sampled = runner.submit(step, planOf(arm));
        // Steps that are not awaited because an earlier one failed.
        sampled.catch(() => undefined);
        pendingSteps.push(sampled);
        if (pendingSteps.length >= maxInFlight) tokens.push((await pendingSteps.shift())?.[0] ?? 0);
      }
      for (const one of pendingSteps) tokens.push((await one)[0] ?? 0);
      return { ms: performance.now() - start, tokens };
    },

    async decodeLogits(arm, context, tokens) {
      const rows: Float32Array[] = [];
      for (const [n, token] of tokens.entries()) {
        decodeStep(token, context + n);
        rows.push(...(await runner.logits(step, planOf(arm))));
      }
      return rows;
    },

    async prefillLogits(arm, tokens, count) {
      for (let first = 0; ; first += capacity.stepTokens) {
        const length = Math.min(capacity.stepTokens, tokens.length - first);
        step.clear();
        const last = step.prefillTokens(tokens, first, length, slot);
        if (first + length < tokens.length) {
          await runner.submit(step, planOf(arm));
          continue;
        }
        const sampled = Math.min(count, length, maxStepSamples(capacity.slots));
        for (let n = sampled - 1; n >= 0; n--) step.sample(last - n, slot, tokens.length - n, greedySampling);
        return runner.logits(step, planOf(arm));
      }
    },

    async pause() {
      const hadOthers = await letOthersRun();
      if (hadOthers) takePages();
      return hadOthers;
    },

    async fill(first, tokens) {
      step.clear();
      // `prefillTokens` takes ids by position.
      const ids = [...Array.from({ length: first }, () => 0), ...tokens];
      step.prefillTokens(ids, first, tokens.length, slot);
      await runner.submit(step, planOf('baseline'));
    },

    async trace(arm, context) {
      decodeStep(anyToken, context);
      const times = await runner.trace(step, planOf(arm));
      return times.map(({ id, kernel, nodes, ms }) => ({ id, kernel, ms, ...costOf(nodes, context) }));
    },
  };
}
