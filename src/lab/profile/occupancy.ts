/** How many threads a GPU keeps ready, as far as the size of workgroups limits it. Registers are unknown to WGSL. */

/** A unit that shares workgroup memory, at its smallest over the GPUs of NVIDIA, AMD and Intel of the last years. */
const unit = { threads: 1536, workgroups: 16, bytes: 65_536 };

/** Fraction of a unit's threads that can be ready, and what limits it. */
export function occupancyOf({ threads, bytes }: { threads: number; bytes: number }): {
  readonly occupancy: number;
  readonly occupancy_limit: 'workgroup_size' | 'workgroup_memory' | 'workgroups';
} {
  const bySize = Math.floor(unit.threads / threads);
  const byMemory = bytes === 0 ? Number.POSITIVE_INFINITY : Math.floor(unit.bytes / bytes);
  const count = Math.min(bySize, byMemory, unit.workgroups);
  return {
    occupancy: Math.min(1, (count * threads) / unit.threads),
    occupancy_limit:
      count === byMemory && byMemory < bySize
        ? 'workgroup_memory'
        : count === unit.workgroups && unit.workgroups < bySize
          ? 'workgroups'
          : 'workgroup_size',
  };
}
