import type { Capacity, Memory } from '../src/engine/memory.ts';
import { pageBytes, workBytes } from '../src/engine/memory.ts';
import { pageTokens } from '../kernels/rope-kv-write.ts';
import type { Graph } from '../src/engine/index.ts';

/** What a context of this length takes on the GPU beside the weights. */
export interface MemoryFigures {
  readonly context: number;
  /** Keys and values of one sequence of that length; another such sequence takes as much again. */
  readonly cacheBytes: number;
  /** Everything else, for all sequences: activations, logits, tables. */
  readonly workBytes: number;
}

/** Computed as the engine does when it sizes itself, for its number of slots and size of steps. */
export function memoryOver(graph: Graph, { capacity }: Memory, contexts: readonly number[]): MemoryFigures[] {
  const { slots, stepTokens }: Capacity = capacity;
  return contexts
    .filter((context) => context <= graph.shape.trainedContext)
    .map((context) => ({
      context,
      cacheBytes: Math.ceil(context / pageTokens) * pageBytes(graph.shape),
      workBytes: workBytes(graph.shape, { context, slots, stepTokens }),
    }));
}
