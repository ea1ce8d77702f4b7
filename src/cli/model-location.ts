import { stat } from 'node:fs/promises';
import { basename, join, resolve, sep } from 'node:path';
import { didYouMean } from '../words/nearest.ts';
import { hubPrefix, parseReference } from '../pull/reference.ts';
import { modelsDir } from './data-dir.ts';
import { aliasesOf, type PulledModel, pulledCopy, pulledModels } from './models/pulled-models.ts';
import { StartError } from './start-error.ts';
import { commandOf } from '../terminal/program.ts';

export const embeddedName = 'lathe-tiny';

export interface ModelLocation {
  /** Path, URL or `hf:OWNER/NAME...`. */
  readonly location: string;
  readonly embedded: boolean;
}

/**
 * Resolves the value of `--model`: absent is the embedded model; otherwise a URL, a hub repository, a file, a folder,
 * or the name of a pulled model.
 */
export async function locateModel(
  model: string | undefined,
  directories: { packageRoot: string; dataDir: string },
): Promise<ModelLocation> {
  const embedded = {
    location: join(directories.packageRoot, 'models', 'lathe-tiny-q8_0.gguf'),
    embedded: true,
  };
  if (model === undefined) return embedded;
  if (/^https?:\/\//i.test(model)) return { location: model, embedded: false };
  const folder = modelsDir(directories.dataDir);
  if (model.startsWith(hubPrefix)) {
    const reference = parseReference(model.slice(hubPrefix.length));
    const copy = reference && (await pulledCopy(folder, reference));
    return { location: copy ?? model, embedded: false };
  }
  const stats = await stat(model).catch(() => undefined);
  if (stats?.isFile()) return { location: resolve(model), embedded: false };

  const pulled = await pulledModels(folder);
  const match = findPulled(pulled, model);
  if (match) return { location: match.path, embedded: false };
  if (stats?.isDirectory()) return { location: resolve(model), embedded: false };
  if (model.toLowerCase() === embeddedName) return embedded;
  if (model.startsWith('.') || model.startsWith(sep)) {
    throw new StartError(`there is no file or folder ${resolve(model)}.`);
  }
  throw unknownModel(model, [...new Set([embeddedName, ...shortNames(pulled)])]);
}

/** The pulled model of this name; undefined when there is none. */
export function findPulled(pulled: readonly PulledModel[], requestedName: string): PulledModel | undefined {
  const matches = pulled.filter((model) => aliasesOf(model).includes(requestedName.toLowerCase()));
  // A repository's name also matches the files in it. A folder model has the exact name and takes precedence.
  const exact = matches.find(({ name }) =>
    [name, name.replace('--', '/')].some((alias) => alias.toLowerCase() === requestedName.toLowerCase()),
  );
  if (matches.length < 2 || exact) return exact ?? matches[0];
  const candidates = matches.map(({ name }) => name).join(', ');
  throw new StartError(
    `'${requestedName}' matches several pulled models: ${candidates}. Use one of these names.`,
  );
}

/** The shortest unambiguous name of each model: its base name where no other model has it, else its full name. */
export function shortNames(pulled: readonly PulledModel[]): string[] {
  const short = pulled.map(({ name }) => basename(name));
  return pulled.map(({ name }, index) => {
    const baseName = short[index] ?? name;
    return short.filter((other) => other.toLowerCase() === baseName.toLowerCase()).length > 1
      ? name
      : baseName;
  });
}

export const unknownModel = (requestedName: string, known: readonly string[]): StartError =>
  new StartError(
    `there is no model file and no pulled model '${requestedName}'${didYouMean(requestedName, known, (name) => `'${name}'`)}. ` +
      `Known models: ${known.join(', ')}. Download one with: ${commandOf('host')} pull REPO[:FILE]`,
  );
