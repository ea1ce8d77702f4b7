import type { ModelDefaults } from '../../planes/model-store.ts';
import { changeRecord, readRecord } from '../../pull/record.ts';
import { homeOf } from '../models/pulled.ts';

/** Defaults that a model was created with, kept in the record of its folder; they go with the model. */
export async function defaultsOf(folder: string, files: readonly string[]): Promise<ModelDefaults> {
  const { home, paths } = homeOf(folder, files);
  return (await readRecord(home))?.defaults?.[paths[0] ?? ''] ?? {};
}

export async function keepDefaults(
  folder: string,
  files: readonly string[],
  { system, parameters }: ModelDefaults,
): Promise<void> {
  const { home, paths } = homeOf(folder, files);
  const [first] = paths;
  if (first === undefined || (system === undefined && parameters === undefined)) return;
  const kept = { ...(system === undefined ? {} : { system }), ...(parameters ? { parameters } : {}) };
  await changeRecord(home, (known) => ({ ...known, defaults: { ...known.defaults, [first]: kept } }));
}
