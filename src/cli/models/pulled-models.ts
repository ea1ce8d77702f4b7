/** The models in the models folder, complete or not: GGUF files, split GGUF sets and model folders. */
import { readdir, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { isGgufModelPath, listPartNames, parseSplitName } from '../../engine/index.ts';
import { chooseModel } from '../../pull/choose.ts';
import { readRecord } from '../../pull/download-record.ts';
import type { Reference } from '../../pull/reference.ts';

export interface PulledModel {
  /** Name for `--model`: `owner--name/file` without the file extension, or `owner--name` for a folder. */
  readonly name: string;
  /** Path of the file, of the first part of a split set, or of the folder. */
  readonly path: string;
  /** All files of the model, relative to the models folder, with slashes. */
  readonly files: readonly string[];
  readonly sizeBytes: number;
  /** Those of its files whose download is incomplete. */
  readonly unfinished: readonly string[];
}

interface FoundFile {
  /** Relative to the models folder, with slashes. */
  readonly path: string;
  readonly sizeBytes: number;
}

const partEnding = /\.part$/;
/**
 * Files that identify a model folder. Settings without weights are the rest of an incomplete one, except next to a GGUF
 * file.
 */
const weightFile = /\/([^/]+\.safetensors|params_shard_\d+\.bin)(\.part)?$/;
const settingsFile = /\/(config|mlc-chat-config)\.json(\.part)?$/;

/** Lists the pulled models, sorted by name. An absent folder has none. */
export async function pulledModels(folder: string): Promise<PulledModel[]> {
  const files = await filesBelow(folder);
  const gguf = ggufModels(folder, files);
  const folders = folderModels(folder, files);
  return [...gguf, ...folders].sort((a, b) => (a.name < b.name ? -1 : 1));
}

async function filesBelow(folder: string): Promise<FoundFile[]> {
  const found = await listFiles(folder, '');
  return found.sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** Does not follow links to folders: files found here may be deleted, so they must be inside the models folder. */
async function listFiles(folder: string, prefix: string): Promise<FoundFile[]> {
  const entries = await readdir(join(folder, prefix), { withFileTypes: true }).catch(() => []);
  const found: FoundFile[] = [];
  for (const entry of entries) {
    const path = `${prefix}${entry.name}`;
    if (entry.name.startsWith('.') || /\.part\.json$/.test(entry.name)) continue;
    if (entry.isDirectory()) found.push(...(await listFiles(folder, `${path}/`)));
    // A link to a file elsewhere counts as a file. Deleting it deletes the link only.
    if (!entry.isFile() && !entry.isSymbolicLink()) continue;
    const facts = await stat(join(folder, path)).catch(() => undefined);
    if (facts?.isFile()) found.push({ path, sizeBytes: facts.size });
  }
  return found;
}

function ggufModels(folder: string, files: readonly FoundFile[]): PulledModel[] {
  const models = new Map<string, FoundFile[]>();
  for (const file of files) {
    const path = file.path.replace(partEnding, '');
    if (!isGgufModelPath(path)) continue;
    const split = parseSplitName(path);
    const key = split ? (listPartNames({ ...split, count: 1, part: 1 })[0] ?? path) : path;
    models.set(key, [...(models.get(key) ?? []), file]);
  }
  return Array.from(models.values(), (modelFiles) => {
    const first =
      (modelFiles.find(({ path }) => !partEnding.test(path)) ?? modelFiles[0])?.path.replace(
        partEnding,
        '',
      ) ?? '';
    const name = parseSplitName(first)?.model ?? first.replace(/\.gguf$/i, '');
    return createPulledModel(folder, { name, path: first, modelFiles });
  });
}

function folderModels(folder: string, files: readonly FoundFile[]): PulledModel[] {
  const foldersWith = (isWanted: (path: string) => boolean) =>
    files.filter(({ path }) => isWanted(path)).map(({ path }) => path.slice(0, path.lastIndexOf('/')));
  const withGguf = new Set(foldersWith((path) => isGgufModelPath(path.replace(partEnding, ''))));
  const settings = foldersWith((path) => settingsFile.test(path)).filter((top) => !withGguf.has(top));
  const modelFolders = new Set([...foldersWith((path) => weightFile.test(path)), ...settings]);
  // An embedding model has subfolders for its modules, which are not models.
  const outermost = [...modelFolders].filter(
    (top) => ![...modelFolders].some((other) => top.startsWith(`${other}/`)),
  );
  return outermost.map((top) => {
    const modelFiles = files.filter(
      ({ path }) => path.startsWith(`${top}/`) && !/\.gguf(\.part)?$/i.test(path),
    );
    return createPulledModel(folder, { name: top, path: top, modelFiles });
  });
}

function createPulledModel(
  folder: string,
  { name, path, modelFiles }: { name: string; path: string; modelFiles: readonly FoundFile[] },
): PulledModel {
  return {
    name,
    path: join(folder, ...path.split('/')),
    files: modelFiles.map((file) => file.path),
    sizeBytes: modelFiles.reduce((sum, file) => sum + file.sizeBytes, 0),
    unfinished: modelFiles.filter((file) => partEnding.test(file.path)).map((file) => file.path),
  };
}

/** The repository folder of a model, which holds its download record, and the model's files relative to that folder. */
export function locateInRepository(
  folder: string,
  files: readonly string[],
): { repositoryFolder: string; paths: string[] } {
  const [top = '', ...below] = (files[0] ?? '').split('/');
  if (below.length === 0) return { repositoryFolder: folder, paths: [...files] };
  return { repositoryFolder: join(folder, top), paths: files.map((file) => file.slice(top.length + 1)) };
}

/**
 * All names that match a pulled model, in lower case: its name, its file's name, its repository as the hub writes it,
 * and the repository alone.
 */
export function aliasesOf({ name, path, files }: PulledModel): string[] {
  const [top = ''] = name.split('/');
  const repository = [top, top.replace('--', '/')];
  const names = [name, basename(name), name.replace('--', '/'), basename(path), ...repository];
  const ofFiles =
    files.length > 1 && /\.gguf$/i.test(path) ? files.flatMap((file) => [file, basename(file)]) : [];
  const all = [...names, ...ofFiles].map((one) => one.toLowerCase());
  return [...new Set(/\.gguf$/i.test(path) ? all.flatMap((one) => [one, `${one}.gguf`]) : all)];
}

/** Path of the complete pulled copy that a hub reference means; undefined if there is none. */
export async function pulledCopy(
  folder: string,
  { repo, file, revision }: Reference,
): Promise<string | undefined> {
  const repositoryFolder = join(folder, repo.replace('/', '--'));
  const record = await readRecord(repositoryFolder);
  const models = (await pulledModels(folder)).filter(
    ({ path, unfinished }) =>
      (path === repositoryFolder || path.startsWith(join(repositoryFolder, '/'))) && unfinished.length === 0,
  );
  const top = repo.replace('/', '--').length + 1;
  const files = models
    .flatMap((model) => model.files)
    .map((path) => path.slice(top))
    .filter((path) => revision === undefined || record?.files[path]?.revision === revision)
    .map((path) => ({ path, sizeBytes: 0, checksum: { kind: 'sha256' as const, hex: '' } }));
  try {
    const { entry } = chooseModel(files, file);
    return entry === undefined ? repositoryFolder : join(repositoryFolder, ...entry.split('/'));
  } catch {
    // Other files of the repository were pulled; the requested ones are on the hub.
    return undefined;
  }
}
