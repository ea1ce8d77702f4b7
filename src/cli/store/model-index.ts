/** Index of the stored models: names, files and header facts. */
import { createHash } from 'node:crypto';
import { readdir, stat } from 'node:fs/promises';
import { basename, dirname, join, sep } from 'node:path';
import { isGgufModelPath, parseSplitName } from '../../engine/index.ts';
import type { ModelCard, ModelRow, StoredModel } from '../../planes/model-store.ts';
import { readStoredDigest } from '../../pull/stored-digest.ts';
import { embeddedName, findPulled, locateModel } from '../model-location.ts';
import { locateInRepository, type PulledModel, pulledCopy, pulledModels } from '../models/pulled-models.ts';
import type { CliContext } from '../cli-context.ts';
import { readDefaults } from './defaults.ts';
import { type ModelHeader, ModelHeaderCache } from './model-headers.ts';
import { hubReference, storedNamesFor } from './model-names.ts';
import { toHttpError } from './http-errors.ts';

interface ModelIndexOptions {
  readonly cli: Pick<CliContext, 'env' | 'packageRoot'>;
  readonly dataDir: string;
  /** The models folder. */
  readonly folder: string;
}

export class ModelIndex {
  readonly #options: ModelIndexOptions;
  readonly #headers: ModelHeaderCache;

  constructor(options: ModelIndexOptions) {
    this.#options = options;
    this.#headers = new ModelHeaderCache(options.cli);
  }

  async list(): Promise<ModelRow[]> {
    const rows: ModelRow[] = [];
    for (const model of [await this.#embeddedModel(), ...(await pulledModels(this.#options.folder))])
      rows.push((await this.#read(model)).row);
    return rows;
  }

  async find(name: string): Promise<PulledModel | undefined> {
    const { folder } = this.#options;
    const pulled = await pulledModels(folder);
    const reference = hubReference(name);
    if (reference) {
      const copy = await pulledCopy(folder, reference);
      return pulled.find(({ path }) => path === copy);
    }
    try {
      for (const one of storedNamesFor(name)) {
        const match = findPulled(pulled, one);
        if (match) return match;
      }
    } catch (error) {
      throw toHttpError(error);
    }
    const [plain = ''] = storedNamesFor(name);
    if (plain.toLowerCase() === embeddedName) return await this.#embeddedModel();
    return await this.#findById(pulled, plain);
  }

  /** Whether exactly this name is that of a model at another location; false for locations outside the folder. */
  async isNameOfAnother(name: string, location: string): Promise<boolean> {
    const { folder } = this.#options;
    if (!location.startsWith(join(folder, sep)) || hubReference(name)) return false;
    for (const path of storedNamesFor(name).map((one) => join(folder, ...one.split('/')))) {
      if (!path.startsWith(join(folder, sep)) || path.includes('\0')) continue;
      const entries = await readdir(dirname(path)).catch(() => []);
      const others = entries.filter((entry) => modelNameOf(entry) === basename(path).toLowerCase());
      if (others.some((entry) => !isPartOf(location, join(dirname(path), entry)))) return true;
    }
    return false;
  }

  /** Finds a model by the id it has when it is resident. */
  async #findById(pulled: readonly PulledModel[], id: string): Promise<PulledModel | undefined> {
    for (const model of pulled) {
      const { header } = await this.#read(model);
      if ('id' in header && header.id === id) return model;
    }
    return undefined;
  }

  /** The model at a location. The embedded model has no files in the data directory. */
  async findByLocation(location: string): Promise<PulledModel | undefined> {
    const embedded = await this.#embeddedModel();
    if (embedded.path === location) return embedded;
    return (await pulledModels(this.#options.folder)).find(({ path }) => path === location);
  }

  /**
   * Whether two locations are the same file. A linked copy is; a copy that had to be written again is another model.
   */
  async isSame(one: string, other: string): Promise<boolean> {
    if (one === other) return true;
    const [first, second] = await Promise.all([this.#fileIdentity(one), this.#fileIdentity(other)]);
    return first !== undefined && first === second;
  }

  async #fileIdentity(location: string): Promise<string | undefined> {
    // A GGUF file is its own weights, so the folder need not be searched.
    const model = isGgufModelPath(location) ? undefined : await this.findByLocation(location);
    const weights = model?.files.find((file) => /\.(gguf|safetensors|bin)$/i.test(file));
    const path = weights === undefined ? location : join(this.#options.folder, ...weights.split('/'));
    const found = await stat(path, { bigint: true }).catch(() => undefined);
    return found && `${found.dev}:${found.ino}`;
  }

  /** Card of a model, which may also be outside the data directory (a path or a URL). */
  async card({ name, location }: StoredModel, withLists: boolean): Promise<ModelCard> {
    const known = (await this.findByLocation(location)) ?? externalModel(name, location);
    const { row, header } = await this.#read(known, withLists);
    const facts = 'facts' in header ? header.facts : undefined;
    return {
      ...row,
      canInsert: facts?.insert ?? false,
      kind: facts?.kind ?? 'generate',
      pooling: facts?.pooling,
      metadata: 'metadata' in header ? header.metadata : new Map(),
      defaults: await readDefaults(this.#options.folder, known.files),
    };
  }

  /** Why the model at a location cannot be served; undefined if it can. */
  async problemOf(location: string): Promise<string | undefined> {
    return this.#headerProblem(await this.#headers.readWithLists(location));
  }

  /** Removes the path of the models folder from the message, which goes to clients. */
  #headerProblem(header: ModelHeader): string | undefined {
    return headerProblem(header)?.replaceAll(join(this.#options.folder, '/'), '');
  }

  async #embeddedModel(): Promise<PulledModel> {
    const { cli, dataDir } = this.#options;
    const { location } = await locateModel(undefined, { packageRoot: cli.packageRoot, dataDir });
    return externalModel(embeddedName, location);
  }

  async #read(model: PulledModel, withLists = false): Promise<{ row: ModelRow; header: ModelHeader }> {
    const { name, path, files, unfinished } = model;
    const { stamp, modifiedAt, sizeBytes } = await this.#computeStamp(model);
    const header = await this.#headerOf(path, stamp, { unfinished, withLists });
    const facts = 'facts' in header ? header.facts : undefined;
    const row: ModelRow = {
      name,
      location: path,
      sizeBytes: facts?.sizeBytes ?? sizeBytes,
      modifiedAt,
      digest: (await this.#notedDigest(files)) ?? stamp,
      format: facts?.format === 'hugging-face' ? 'safetensors' : (facts?.format ?? 'unknown'),
      architecture: facts?.architecture ?? 'unknown',
      parameters: facts?.parameters ?? 0,
      quantization: facts?.quantization ?? 'unknown',
      kind: facts?.kind,
      memory: facts?.memory,
      isStored: files.length > 0,
      problem: this.#headerProblem(header),
    };
    return { row, header };
  }

  async #headerOf(
    path: string,
    stamp: string,
    { unfinished, withLists }: { unfinished: readonly string[]; withLists: boolean },
  ): Promise<ModelHeader> {
    if (unfinished.length > 0)
      return { problem: `the download is incomplete (${unfinished.join(', ')}); pull it again` };
    return withLists ? await this.#headers.readWithLists(path) : await this.#headers.read(path, stamp);
  }

  async #notedDigest(files: readonly string[]): Promise<string | undefined> {
    if (files.length === 0) return undefined;
    const { repositoryFolder, paths } = locateInRepository(this.#options.folder, files);
    return (await readStoredDigest(repositoryFolder, paths).catch(() => undefined))?.replace(/^sha256:/, '');
  }

  /** Hash of the names, sizes and modification times of a model's files. */
  async #computeStamp({ path, files }: PulledModel) {
    const { folder } = this.#options;
    const paths = files.length > 0 ? files.map((file) => join(folder, ...file.split('/'))) : [path];
    const hash = createHash('sha256');
    let modified = 0;
    let sizeBytes = 0;
    for (const file of paths) {
      // Undefined for a URL.
      const found = await stat(file).catch(() => undefined);
      modified = Math.max(modified, found?.mtimeMs ?? 0);
      sizeBytes += found?.size ?? 0;
      hash.update(`${file}\0${found?.size}\0${found?.mtimeMs}\0`);
    }
    return { stamp: hash.digest('hex'), modifiedAt: new Date(modified), sizeBytes };
  }
}

/** The name, in lower case, of the model that a file or folder is or belongs to. */
const modelNameOf = (entry: string): string =>
  (parseSplitName(entry)?.model ?? entry.replace(/\.gguf$/i, '')).toLowerCase();

/** Whether a file or folder is the model at a location, or one of its files. */
const isPartOf = (location: string, path: string): boolean =>
  path === location ||
  location.startsWith(join(path, sep)) ||
  (dirname(path) === dirname(location) &&
    parseSplitName(basename(path)) !== undefined &&
    modelNameOf(basename(path)) === modelNameOf(basename(location)));

/** A model that has no files in the data directory. */
const externalModel = (name: string, path: string): PulledModel => ({
  name,
  path,
  files: [],
  sizeBytes: 0,
  unfinished: [],
});

function headerProblem(header: ModelHeader): string | undefined {
  if (!('facts' in header)) return header.problem;
  const { problems } = header.facts;
  return problems.length > 0 ? problems.join('; ') : undefined;
}
