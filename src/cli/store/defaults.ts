import type { ModelDefaults } from '../../planes/model-store.ts';
import { changeRecord, readRecord } from '../../pull/record.ts';
import { homeOf } from '../models/pulled.ts';

/**
 * Reads the defaults that a model was created with. They are in its folder's download record and are deleted with the
 * model.
 */
export async function defaultsOf(folder: string, files: readonly string[]): Promise<ModelDefaults> {
  const { home, paths } = homeOf(folder, files);
  return (await readRecord(home))?.defaults?.[paths[0] ?? ''] ?? {};
}

/** Writes a model's defaults. Empty defaults delete those of an earlier model of the same name. */
export async function keepDefaults(
  folder: string,
  files: readonly string[],
  { system, parameters }: ModelDefaults,
): Promise<void> {
  const { home, paths } = homeOf(folder, files);
  const [first] = paths;
  if (first === undefined) return;
  const kept = { ...(system === undefined ? {} : { system }), ...(parameters ? { parameters } : {}) };
  await changeRecord(home, (known) => {
    const { [first]: before, ...others } = known.defaults ?? {};
    if (before === undefined && isNothing(kept)) return known;
    return { ...known, defaults: isNothing(kept) ? others : { ...others, [first]: kept } };
  });
}

const isNothing = (kept: object): boolean => Object.keys(kept).length === 0;
