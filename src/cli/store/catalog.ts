/** Index of the stored models: names, files and header facts. */
import { createHash } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { ModelCard, ModelRow, StoredModel } from '../../planes/model-store.ts';
import { notedDigestOf } from '../../pull/noted-digest.ts';
import { embeddedName, findPulled, locateModel } from '../model-location.ts';
import { homeOf, type PulledModel, pulledCopy, pulledModels } from '../models/pulled.ts';
import type { World } from '../world.ts';
import { defaultsOf } from './defaults.ts';
import { type Header, Headers } from './header.ts';
import { hubReference, storedNames } from './names.ts';
import { toStoreProblem } from './problems.ts';

interface CatalogOptions {
  readonly world: Pick<World, 'env' | 'packageRoot'>;
  readonly dataDir: string;
  /** The models folder. */
  readonly folder: string;
}

export class Catalog {
  readonly #options: CatalogOptions;
  readonly #headers: Headers;

  constructor(options: CatalogOptions) {
    this.#options = options;
    this.#headers = new Headers(options.world);
  }

  async list(): Promise<ModelRow[]> {
    const rows: ModelRow[] = [];
    for (const model of [await this.#embedded(), ...(await pulledModels(this.#options.folder))])
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
      for (const one of storedNames(name)) {
        const match = findPulled(pulled, one);
        if (match) return match;
      }
    } catch (error) {
      throw toStoreProblem(error);
    }
    const [plain = ''] = storedNames(name);
    if (plain.toLowerCase() === embeddedName) return await this.#embedded();
    return await this.#withId(pulled, plain);
  }

  /** Finds a model by the id it has when it is resident. */
  async #withId(pulled: readonly PulledModel[], id: string): Promise<PulledModel | undefined> {
    for (const model of pulled) {
      const { header } = await this.#read(model);
      if ('id' in header && header.id === id) return model;
    }
    return undefined;
  }

  /** The model at a location. The embedded model has no files in the data directory. */
  async at(location: string): Promise<PulledModel | undefined> {
    const embedded = await this.#embedded();
    if (embedded.path === location) return embedded;
    return (await pulledModels(this.#options.folder)).find(({ path }) => path === location);
  }

  /**
   * Whether two locations are the same file. A linked copy is; a copy that had to be written again is another model.
   */
  async isSame(one: string, other: string): Promise<boolean> {
    if (one === other) return true;
    const [first, second] = await Promise.all([this.#identity(one), this.#identity(other)]);
    return first !== undefined && first === second;
  }

  async #identity(location: string): Promise<string | undefined> {
    const model = await this.at(location);
    const weights = model?.files.find((file) => /\.(gguf|safetensors|bin)$/i.test(file));
    const path = weights === undefined ? location : join(this.#options.folder, ...weights.split('/'));
    const found = await stat(path, { bigint: true }).catch(() => undefined);
    return found && `${found.dev}:${found.ino}`;
  }

  /** Card of a model, which may also be outside the data directory (a path or a URL). */
  async card({ name, location }: StoredModel, whole: boolean): Promise<ModelCard> {
    const known = (await this.at(location)) ?? elsewhere(name, location);
    const { row, header } = await this.#read(known, whole);
    const facts = 'facts' in header ? header.facts : undefined;
    return {
      ...row,
      insert: facts?.insert ?? false,
      kind: facts?.kind ?? 'generate',
      metadata: 'metadata' in header ? header.metadata : new Map(),
      defaults: await defaultsOf(this.#options.folder, known.files),
    };
  }

  /** Why the model at a location cannot be served; undefined if it can. */
  async problemOf(location: string): Promise<string | undefined> {
    return this.#problemIn(await this.#headers.readWhole(location));
  }

  /** Removes the path of the models folder from the message, which goes to clients. */
  #problemIn(header: Header): string | undefined {
    return problemIn(header)?.replaceAll(join(this.#options.folder, '/'), '');
  }

  async #embedded(): Promise<PulledModel> {
    const { world, dataDir } = this.#options;
    const { location } = await locateModel(undefined, { packageRoot: world.packageRoot, dataDir });
    return elsewhere(embeddedName, location);
  }

  async #read(model: PulledModel, whole = false): Promise<{ row: ModelRow; header: Header }> {
    const { name, path, files, unfinished } = model;
    const { stamp, modifiedAt, sizeBytes } = await this.#stampOf(model);
    const header = await this.#headerOf(path, stamp, { unfinished, whole });
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
      problem: this.#problemIn(header),
    };
    return { row, header };
  }

  async #headerOf(
    path: string,
    stamp: string,
    { unfinished, whole }: { unfinished: readonly string[]; whole: boolean },
  ): Promise<Header> {
    if (unfinished.length > 0)
      return { problem: `the download is incomplete (${unfinished.join(', ')}); pull it again` };
    return whole ? await this.#headers.readWhole(path) : await this.#headers.read(path, stamp);
  }

  async #notedDigest(files: readonly string[]): Promise<string | undefined> {
    if (files.length === 0) return undefined;
    const { home, paths } = homeOf(this.#options.folder, files);
    return (await notedDigestOf(home, paths).catch(() => undefined))?.replace(/^sha256:/, '');
  }

  /** Hash of the names, sizes and modification times of a model's files. */
  async #stampOf({ path, files }: PulledModel) {
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

/** A model that has no files in the data directory. */
const elsewhere = (name: string, path: string): PulledModel => ({
  name,
  path,
  files: [],
  sizeBytes: 0,
  unfinished: [],
});

function problemIn(header: Header): string | undefined {
  if (!('facts' in header)) return header.problem;
  const { problems } = header.facts;
  return problems.length > 0 ? problems.join('; ') : undefined;
}
