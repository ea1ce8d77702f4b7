import type { BufferPool } from './gpu/buffers.ts';
import type { Shape } from './graph.ts';
import type { Capacity } from './memory.ts';

/** Which token goes to which expert, on the GPU. */
export interface ExpertMemory {
  /** [tokens of a step, used] of (expert, share as f32 bits). */
  readonly routed: GPUBuffer;
}

type Rows = Pick<Capacity, 'stepTokens'>;

export const expertBytes = ({ experts }: Shape, { stepTokens }: Rows): number =>
  experts ? stepTokens * experts.used * 8 : 0;

export function allocateExperts(
  pool: BufferPool,
  { experts }: Shape,
  { stepTokens }: Rows,
): ExpertMemory | undefined {
  if (!experts) return undefined;
  return { routed: pool.storage('experts.routed', stepTokens * experts.used * 8) };
}
