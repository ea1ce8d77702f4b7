import type { Engine } from '../engine/index.ts';
import { usableMemoryBytes } from '../platform/node.ts';

/**
 * Memory in bytes for all models together: the machine's where the adapter is a CPU, at most `--resident-bytes`.
 * Undefined where neither is known, because GPUs do not tell theirs.
 */
export function modelMemoryBytes(
  engine: Pick<Engine, 'adapter'> | undefined,
  residentBytes: number | undefined,
): number | undefined {
  const total = engine?.adapter.software ? usableMemoryBytes() : undefined;
  return total === undefined || residentBytes === undefined
    ? (total ?? residentBytes)
    : Math.min(total, residentBytes);
}
