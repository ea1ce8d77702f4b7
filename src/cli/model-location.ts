import { readdir, stat } from 'node:fs/promises';
import { basename, join, relative, resolve, sep } from 'node:path';
import { didYouMean } from '../config/suggest.ts';
import { modelsDir } from './data-dir.ts';
import { StartError } from './start-error.ts';

const embeddedName = 'lathe-tiny';

export interface ModelLocation {
  /** A path or a URL. */
  readonly location: string;
  readonly embedded: boolean;
}

/** Finds what `--model` means: nothing is the embedded model; else a URL, a file, or the name of a pulled model. */
export async function locateModel(
  model: string | undefined,
  places: { packageRoot: string; dataDir: string },
): Promise<ModelLocation> {
  const embedded = { location: join(places.packageRoot, 'models', 'lathe-tiny-q8_0.gguf'), embedded: true };
  if (model === undefined) return embedded;
  if (/^https?:\/\//i.test(model)) return { location: model, embedded: false };
  const found = await stat(model).catch(() => undefined);
  if (found?.isFile()) return { location: resolve(model), embedded: false };

  const folder = modelsDir(places.dataDir);
  const pulled = await pulledModels(folder);
  const wanted = model.toLowerCase();
  const matches = pulled.filter((path) => namesOf(folder, path).includes(wanted));
  const [match] = matches;
  if (match !== undefined && matches.length === 1) return { location: match, embedded: false };
  if (match !== undefined) {
    const candidates = matches.map((path) => nameOf(folder, path)).join(', ');
    throw new StartError(`several pulled models are called '${model}': ${candidates}. Name one of these.`);
  }
  if (wanted === embeddedName) return embedded;
  if (found?.isDirectory()) throw new StartError(`${model} is a directory; name the .gguf file in it.`);
  const known = [embeddedName, ...pulled.map((path) => basename(path, '.gguf'))];
  if (model.startsWith('.') || model.startsWith(sep)) {
    throw new StartError(`there is no model file ${resolve(model)}.`);
  }
  throw new StartError(
    `there is no model file and no pulled model '${model}'${didYouMean(model, known, (name) => `'${name}'`)}. ` +
      `Known: ${known.join(', ')}. Fetch one with: node dist/host.js pull REPO[:FILE]`,
  );
}

async function pulledModels(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  return entries
    .filter((entry) => entry.isFile() && entry.name.endsWith('.gguf'))
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
}

/** `owner/repo/file`, without the ending. */
const nameOf = (folder: string, path: string): string =>
  relative(folder, path)
    .replaceAll(sep, '/')
    .replace(/\.gguf$/, '');

/** Everything a pulled file answers to, lower case: its name and its path, with and without the ending. */
function namesOf(folder: string, path: string): string[] {
  const names = [nameOf(folder, path), basename(path, '.gguf')].map((name) => name.toLowerCase());
  return [...names, ...names.map((name) => `${name}.gguf`)];
}
