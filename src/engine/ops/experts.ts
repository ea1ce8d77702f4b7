import type { PlanContext } from '../execution/plan-context.ts';
import type { ExpertShape } from '../graph/graph.ts';
import type { ExpertMemory } from '../memory/expert-memory.ts';

/** Sizes and buffers of a model's experts. */
export function expertsOf({ graph, memory }: PlanContext): { experts: ExpertShape; memory: ExpertMemory } {
  const { experts } = graph.shape;
  if (!experts || !memory.experts) throw new Error('the model has no experts');
  return { experts, memory: memory.experts };
}
