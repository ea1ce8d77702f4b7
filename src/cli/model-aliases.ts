import { flagNameOf, UsageError } from '../config/options.ts';
import type { ModelStore } from '../planes/model-store.ts';
import { didYouMean } from '../words/nearest.ts';
import { type ModelAlias, residentTarget } from '../words/model-alias.ts';
import { errorMessage } from '../util/error-message.ts';

export interface AliasCheck {
  readonly store: Pick<ModelStore, 'find' | 'list' | 'isSame'>;
  /** Location of the model that the host starts with. */
  readonly location: string;
  /** Whether requests may load another stored model. */
  readonly canLoad: boolean;
}

/**
 * Checks aliases against the stored models: a name must be new, and its model must be one that requests can use.
 * Throws `UsageError` with every fault.
 */
export async function checkAliases(aliases: readonly ModelAlias[], check: AliasCheck): Promise<void> {
  const faults: string[] = [];
  for (const alias of aliases) {
    for (const fault of [await nameFault(alias, check), await targetFault(alias, aliases, check)])
      if (fault !== undefined) faults.push(`${flagNameOf('alias')} ${alias.name}=${alias.target}: ${fault}`);
  }
  if (faults.length > 0) throw new UsageError(faults);
}

async function nameFault({ name }: ModelAlias, { store }: AliasCheck): Promise<string | undefined> {
  try {
    const hidden = await store.find(name);
    return hidden && `it would hide the stored model '${hidden.name}'; choose another name`;
  } catch (error) {
    return errorMessage(error);
  }
}

async function targetFault(
  { target }: ModelAlias,
  aliases: readonly ModelAlias[],
  { store, location, canLoad }: AliasCheck,
): Promise<string | undefined> {
  if (target === residentTarget) return undefined;
  try {
    const stored = await store.find(target);
    if (stored && (canLoad || (await store.isSame(stored, location)))) return undefined;
    if (stored)
      return `without --swap or --resident requests use the resident model only; add one of them, or name '${residentTarget}'`;
  } catch (error) {
    return errorMessage(error);
  }
  if (aliases.some(({ name }) => name === target)) return `'${target}' is an alias itself; name its model`;
  const known = [residentTarget, ...(await store.list()).map(({ name }) => name)];
  const near = didYouMean(target, known, (name) => `'${name}'`);
  return `there is no stored model '${target}'${near}; expected one of: ${known.join(', ')}`;
}
