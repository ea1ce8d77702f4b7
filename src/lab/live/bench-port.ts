/** Bench port for the live engine. The device must be free while it is used. */
import { feedbackToken, greedySampling, type Plan, type StepPlans, type Runner } from '../../engine/index.ts';
import type { BenchPort } from '../bench/port.ts';

const slot = 0;
const stepsInFlight = 2;
/** Any token: the time does not depend on it. */
const anyToken = 0;

/** @param costOf FLOPs and bytes of one decoded token for the nodes of a dispatch, at a context length */
export function createBenchPort(
  runner: Runner,
  bound: StepPlans | undefined,
  costOf: (nodes: readonly string[], context: number) => { flops: number; bytes: number },
): BenchPort {
  const { capacity, maxPages } = runner.memory;
  const { vocabulary } = runner.graph.shape;
  // With embedding rows streamed from the file, the host must know each token before the step that reads it.
  const maxInFlight = runner.needsTokenIds ? 1 : stepsInFlight;
  const step = runner.newStep();
  const builtin: StepPlans = { singleToken: runner.plan, multiToken: runner.plan, destroy() {} };
  const planOf = (arm: 'baseline' | 'bound'): Plan =>
    runner.planOf(step.dims, arm === 'bound' ? (bound ?? builtin) : builtin);
  runner.setPages(
    slot,
    Array.from({ length: Math.min(maxPages, capacity.pages) }, (_, page) => page),
  );
  return {
    hasTimestamps: runner.gpu.timestamps,
    isSoftware: runner.gpu.caps.software,
    maxContext: Math.min(capacity.context, capacity.pages * 32),
    vocabulary,
    stepTokens: capacity.stepTokens,
    hasRecurrentState: runner.memory.caches.some(({ kind }) => kind === 'state'),

    async prefill(arm, tokens) {
      const start = performance.now();
      let token = 0;
      for (let first = 0; first < tokens.length; first += capacity.stepTokens) {
        const count = Math.min(capacity.stepTokens, tokens.length - first);
        step.clear();
        const row = step.prefillTokens(tokens, first, count, slot);
        if (first + count === tokens.length) step.sample(row, slot, tokens.length, greedySampling);
        token = (await runner.submit(step, planOf(arm)))[0] ?? 0;
      }
      return { ms: performance.now() - start, token };
    },

    async decode(arm, context, count, first) {
      const tokens: number[] = [];
      const pendingSteps: Promise<Uint32Array>[] = [];
      const start = performance.now();
      for (let n = 0; n < count; n++) {
        step.clear();
        // The last sampled token stays on the GPU if possible, as in normal decoding.
        const last = runner.needsTokenIds ? (tokens.at(-1) ?? first) : feedbackToken;
        const row = step.decodeToken(n === 0 ? first : last, context + n, slot);
        step.sample(row, slot, context + n + 1, greedySampling);
        const sampled = runner.submit(step, planOf(arm));
        // Steps that are not awaited because an earlier one failed.
        sampled.catch(() => undefined);
        pendingSteps.push(sampled);
        if (pendingSteps.length >= maxInFlight) tokens.push((await pendingSteps.shift())?.[0] ?? 0);
      }
      for (const one of pendingSteps) tokens.push((await one)[0] ?? 0);
      return { ms: performance.now() - start, tokens };
    },

    async trace(arm, context) {
      step.clear();
      step.sample(step.decodeToken(anyToken, context, slot), slot, context + 1, greedySampling);
      const times = await runner.trace(step, planOf(arm));
      return times.map(({ id, kernel, nodes, ms }) => ({ id, kernel, ms, ...costOf(nodes, context) }));
    },
  };
}
