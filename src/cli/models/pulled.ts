/** What lies in the folder of models: GGUF files, split sets and folders, whole or not. */
import { readdir, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { isGgufModel, partNames, splitNameOf } from '../../engine/index.ts';
import { chooseModel } from '../../pull/choose.ts';
import { readRecord } from '../../pull/record.ts';
import type { Reference } from '../../pull/reference.ts';

export interface PulledModel {
  /** What `--model` calls it: `owner--name/file` without the ending, or `owner--name` for a folder. */
  readonly name: string;
  /** Of the file, the first part, or the folder. */
  readonly path: string;
  /** All that belongs to it, below the folder of models, with slashes. */
  readonly files: readonly string[];
  readonly sizeBytes: number;
  /** Files of it whose download did not finish. */
  readonly unfinished: readonly string[];
}

interface FoundFile {
  /** Below the folder of models, with slashes. */
  readonly path: string;
  readonly sizeBytes: number;
}

const partEnding = /\.part$/;
/** What a folder of weights is known by; settings alone are what is left of one, unless they lie beside a GGUF. */
const weightFile = /\/([^/]+\.safetensors|params_shard_\d+\.bin)(\.part)?$/;
const settingsFile = /\/(config|mlc-chat-config)\.json(\.part)?$/;

/** Sorted by name. A folder that does not exist holds none. */
export async function pulledModels(folder: string): Promise<PulledModel[]> {
  const files = await filesBelow(folder);
  const ofGguf = ggufModels(folder, files);
  const ofFolders = folderModels(folder, files);
  return [...ofGguf, ...ofFolders].sort((a, b) => (a.name < b.name ? -1 : 1));
}

async function filesBelow(folder: string): Promise<FoundFile[]> {
  const found = await filesOf(folder, '');
  return found.sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** Links to folders are not followed: what is found here may be removed, and must lie here. */
async function filesOf(folder: string, prefix: string): Promise<FoundFile[]> {
  const entries = await readdir(join(folder, prefix), { withFileTypes: true }).catch(() => []);
  const found: FoundFile[] = [];
  for (const entry of entries) {
    const path = `${prefix}${entry.name}`;
    if (entry.name.startsWith('.') || /\.part\.json$/.test(entry.name)) continue;
    if (entry.isDirectory()) found.push(...(await filesOf(folder, `${path}/`)));
    // A link to a model that is kept elsewhere is one, too; to remove it removes the link.
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
    if (!isGgufModel(path)) continue;
    const split = splitNameOf(path);
    const key = split ? (partNames({ ...split, count: 1, part: 1 })[0] ?? path) : path;
    models.set(key, [...(models.get(key) ?? []), file]);
  }
  return Array.from(models.values(), (own) => {
    const first =
      (own.find(({ path }) => !partEnding.test(path)) ?? own[0])?.path.replace(partEnding, '') ?? '';
    const name = splitNameOf(first)?.model ?? first.replace(/\.gguf$/i, '');
    return modelOf(folder, { name, path: first, own });
  });
}

function folderModels(folder: string, files: readonly FoundFile[]): PulledModel[] {
  const topsOf = (isWanted: (path: string) => boolean) =>
    files.filter(({ path }) => isWanted(path)).map(({ path }) => path.slice(0, path.lastIndexOf('/')));
  const withGguf = new Set(topsOf((path) => isGgufModel(path.replace(partEnding, ''))));
  const settings = topsOf((path) => settingsFile.test(path)).filter((top) => !withGguf.has(top));
  const tops = new Set([...topsOf((path) => weightFile.test(path)), ...settings]);
  // Modules of an embedding model lie in folders of their own below it.
  const outer = [...tops].filter((top) => ![...tops].some((other) => top.startsWith(`${other}/`)));
  return outer.map((top) => {
    const own = files.filter(({ path }) => path.startsWith(`${top}/`) && !/\.gguf(\.part)?$/i.test(path));
    return modelOf(folder, { name: top, path: top, own });
  });
}

function modelOf(
  folder: string,
  { name, path, own }: { name: string; path: string; own: readonly FoundFile[] },
): PulledModel {
  return {
    name,
    path: join(folder, ...path.split('/')),
    files: own.map((file) => file.path),
    sizeBytes: own.reduce((sum, file) => sum + file.sizeBytes, 0),
    unfinished: own.filter((file) => partEnding.test(file.path)).map((file) => file.path),
  };
}

/** The folder whose record tells of a model, its repository's, and the model's files below that. */
export function homeOf(folder: string, files: readonly string[]): { home: string; paths: string[] } {
  const [top = '', ...below] = (files[0] ?? '').split('/');
  if (below.length === 0) return { home: folder, paths: [...files] };
  return { home: join(folder, top), paths: files.map((file) => file.slice(top.length + 1)) };
}

/**
 * Everything a pulled model answers to, in lower case: its name, its file's, its repository's as on the hub, and the
 * repository alone.
 */
export function namesOf({ name, path, files }: PulledModel): string[] {
  const [top = ''] = name.split('/');
  const repository = [top, top.replace('--', '/')];
  const names = [name, basename(name), name.replace('--', '/'), basename(path), ...repository];
  const ofFiles =
    files.length > 1 && /\.gguf$/i.test(path) ? files.flatMap((file) => [file, basename(file)]) : [];
  const all = [...names, ...ofFiles].map((one) => one.toLowerCase());
  return [...new Set(/\.gguf$/i.test(path) ? all.flatMap((one) => [one, `${one}.gguf`]) : all)];
}

/** A whole pulled copy of what a reference to the hub means; undefined where there is none. */
export async function pulledCopy(
  folder: string,
  { repo, file, revision }: Reference,
): Promise<string | undefined> {
  const home = join(folder, repo.replace('/', '--'));
  const record = await readRecord(home);
  const models = (await pulledModels(folder)).filter(
    ({ path, unfinished }) => (path === home || path.startsWith(join(home, '/'))) && unfinished.length === 0,
  );
  const top = repo.replace('/', '--').length + 1;
  const files = models
    .flatMap((model) => model.files)
    .map((path) => path.slice(top))
    .filter((path) => revision === undefined || record?.files[path]?.revision === revision)
    .map((path) => ({ path, sizeBytes: 0, checksum: { kind: 'sha256' as const, hex: '' } }));
  try {
    const { entry } = chooseModel(files, file);
    return entry === undefined ? home : join(home, ...entry.split('/'));
  } catch {
    // What was pulled is something else; the hub has the rest.
    return undefined;
  }
}
