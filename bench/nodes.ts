import { greedySampling, type Runner } from '../src/engine/index.ts';
import type { StepShape } from '../src/engine/ops/op.ts';
import { sum } from './cost.ts';
import { promptOf } from './generation.ts';
import { median } from './statistics.ts';

/** One node of the model, summed over all layers. */
export interface NodeFigures {
  /** Name without the layer: `attn.qkv`. */
  readonly node: string;
  readonly op: string;
  readonly dispatches: number;
  /** GPU time per step. */
  readonly ms: number;
  /** Share of the step's GPU time, 0 to 1. */
  readonly share: number;
  readonly gflops: number;
  /** GB per second of the minimum traffic of the node: weights, cache and activations. */
  readonly gigabytes: number;
}

export interface StepFigures {
  readonly phase: 'decode' | 'prefill';
  readonly tokens: number;
  /** Tokens before the step. */
  readonly context: number;
  readonly dispatches: number;
  readonly gpuMs: number;
  readonly nodes: readonly NodeFigures[];
}

/** The slot that benches use. */
export const firstSlot = 0;

/** Assigns all pages of the cache to the benches' slot, in order. */
export function assignPages(runner: Runner): void {
  const { maxPages, capacity } = runner.memory;
  const count = Math.min(maxPages, capacity.pages);
  runner.setPages(
    firstSlot,
    Array.from({ length: count }, (_, page) => page),
  );
}

/**
 * Measures the GPU time of every node in one step with timestamp queries. Each dispatch is a separate pass here, so the
 * sum is slightly larger than the time of a real step. The engine must be idle.
 */
export async function traceStep(
  runner: Runner,
  options: { phase: StepFigures['phase']; context: number; rounds: number },
): Promise<StepFigures> {
  const { phase, context, rounds } = options;
  const { tileTokens, capacity } = runner.memory;
  const step = runner.newStep();
  // A prefill step has the size that the engine uses.
  const tokens =
    phase === 'decode' ? 1 : Math.min(128, capacity.stepTokens - (capacity.stepTokens % tileTokens));
  assignPages(runner);
  const row =
    phase === 'decode'
      ? step.decodeToken(promptOf(1)[0] ?? 0, context, firstSlot)
      : step.prefillTokens(promptOf(context + tokens), context, tokens, firstSlot);
  step.sample(row, firstSlot, context + tokens, greedySampling);

  await runner.trace(step);
  const traces: Awaited<ReturnType<Runner['trace']>>[] = [];
  for (let round = 0; round < rounds; round++) traces.push(await runner.trace(step));
  const first = traces[0] ?? [];
  const dispatches = first.map(({ id, op }, index) => ({
    node: nodeOf(id),
    op,
    ms: median(traces.map((trace) => trace[index]?.ms ?? 0)),
  }));
  const gpuMs = sum(dispatches.map(({ ms }) => ms));
  const nodes = [...Map.groupBy(dispatches, ({ node }) => node)].map(([node, list]): NodeFigures => {
    const ms = sum(list.map((one) => one.ms));
    const { flops, bytes } = costOf(runner, node, { tokens, position: context, samples: 1 });
    return {
      node,
      op: list[0]?.op ?? '',
      dispatches: list.length,
      ms,
      share: ms / gpuMs,
      gflops: flops / ms / 1e6,
      gigabytes: bytes / ms / 1e6,
    };
  });
  nodes.sort((a, b) => b.ms - a.ms);
  return { phase, tokens, context, dispatches: dispatches.length, gpuMs, nodes };
}

/** Node name of a dispatch; parts of one matrix and variants of one attention share a name. */
const nodeOf = (id: string): string =>
  id
    .replace(/^layers\.\d+\./, '')
    .replace(/#\d+$/, '')
    .replace(/\.(wide|split)$/, '');

function costOf(runner: Runner, node: string, step: StepShape): { flops: number; bytes: number } {
  const costs = runner.graph.units
    .filter((unit) => nodeOf(unit.id) === node)
    .map((unit) => runner.costOf(unit, step));
  return {
    flops: sum(costs.map((cost) => cost.flops)),
    bytes: sum(costs.map((cost) => cost.weightBytes + cost.cacheBytes + cost.activationBytes)),
  };
}
