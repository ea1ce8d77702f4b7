import type { Runner } from '../src/engine/index.ts';

/** Bytes that one decoded token reads: all active weights, and the KV cache of the tokens before it. */
export function bytesPerToken(runner: Runner, context: number): { weights: number; cache: number } {
  const step = { tokens: 1, position: context, samples: 1 };
  const costs = runner.graph.units.map((unit) => ({ op: unit.op, ...runner.costOf(unit, step) }));
  return {
    weights: sum(costs.map((one) => one.weightBytes)),
    cache: sum(costs.map((one) => (one.op === 'attention' ? one.cacheBytes : 0))),
  };
}

export const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
