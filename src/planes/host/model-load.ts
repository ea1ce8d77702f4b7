import type { EngineStats } from '../../engine/index.ts';
import type { Resident } from '../resident.ts';

/** A loaded model and how busy it is, when `/metrics` is read. */
export interface ModelLoad {
  readonly model: string;
  readonly stats: EngineStats;
}

/** All loaded models, the resident one first. Where two have the same id, metrics show the first. */
export function readModelLoads({ models }: Pick<Resident, 'models'>): ModelLoad[] {
  const loads = models.map(({ engine }) => ({ model: engine.model.id, stats: engine.stats() }));
  return loads.filter(({ model }, index) => loads.findIndex((load) => load.model === model) === index);
}

/** Fraction of the KV cache that running requests use; pages that are only kept for later prompts do not count. */
export const kvCacheUsage = ({ total, free, cached }: EngineStats['pages']): number =>
  total === 0 ? 0 : (total - free - cached) / total;
