import type { Capacity, Memory } from '../src/engine/memory/memory.ts';
import { pageBytes, workspaceBytes } from '../src/engine/memory/memory.ts';
import { pageTokens } from '../kernels/rope-kv-write.ts';
import type { Graph } from '../src/engine/index.ts';

/** GPU memory of a context in addition to the weights. */
export interface MemoryFigures {
  readonly context: number;
  /** KV cache of one sequence of that length. */
  readonly cacheBytes: number;
  /** Activations, logits and tables, for all sequences together. */
  readonly workBytes: number;
}

/** Computes memory with the engine's own formulas, for its number of slots and step size. */
export function memoryOver(graph: Graph, { capacity }: Memory, contexts: readonly number[]): MemoryFigures[] {
  const { slots, stepTokens }: Capacity = capacity;
  return contexts
    .filter((context) => context <= graph.shape.trainedContext)
    .map((context) => ({
      context,
      cacheBytes: Math.ceil(context / pageTokens) * pageBytes(graph.shape),
      workBytes: workspaceBytes(graph.shape, { context, slots, stepTokens }),
    }));
}
