import type { ModelDefaults } from '../../planes/model-store.ts';
import { updateRecord, readRecord } from '../../pull/download-record.ts';
import { locateInRepository } from '../models/pulled-models.ts';

/**
 * Reads the defaults that a model was created with. They are in its folder's download record and are deleted with the
 * model.
 */
export async function readDefaults(folder: string, files: readonly string[]): Promise<ModelDefaults> {
  const { repositoryFolder, paths } = locateInRepository(folder, files);
  return (await readRecord(repositoryFolder))?.defaults?.[paths[0] ?? ''] ?? {};
}

/** Writes a model's defaults. Empty defaults delete those of an earlier model of the same name. */
export async function saveDefaults(
  folder: string,
  files: readonly string[],
  { system, parameters }: ModelDefaults,
): Promise<void> {
  const { repositoryFolder, paths } = locateInRepository(folder, files);
  const [first] = paths;
  if (first === undefined) return;
  const newDefaults = { ...(system === undefined ? {} : { system }), ...(parameters ? { parameters } : {}) };
  await updateRecord(repositoryFolder, (known) => {
    const { [first]: before, ...others } = known.defaults ?? {};
    if (before === undefined && isEmpty(newDefaults)) return known;
    return { ...known, defaults: isEmpty(newDefaults) ? others : { ...others, [first]: newDefaults } };
  });
}

const isEmpty = (newDefaults: object): boolean => Object.keys(newDefaults).length === 0;
