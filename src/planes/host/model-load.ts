import type { EngineStats } from '../../engine/index.ts';
import type { Resident } from '../resident.ts';

/** The resident model and how busy it is, when `/metrics` is read. */
export interface ModelLoad {
  readonly model: string;
  readonly stats: EngineStats;
}

/** Undefined while no model is resident. */
export function readModelLoad({ engine }: Pick<Resident, 'engine'>): ModelLoad | undefined {
  return engine && { model: engine.model.id, stats: engine.stats() };
}

/** Fraction of the KV cache that running requests use; pages that are only kept for later prompts do not count. */
export const kvCacheUsage = ({ total, free, cached }: EngineStats['pages']): number =>
  total === 0 ? 0 : (total - free - cached) / total;
