/** The models that the host can serve: the embedded one and those in the data directory. */
import { stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { isGgufModelPath } from '../../engine/index.ts';
import { isPortableName } from '../../words/portable-name.ts';
import type {
  ModelCard,
  ModelDefaults,
  ModelRole,
  ModelRow,
  ModelStore,
  NewModel,
  PullListener,
  StoredModel,
} from '../../planes/model-store.ts';
import { HttpError } from '../../http/error.ts';
import { modelsDir } from '../data-dir.ts';
import { type PulledModel, pulledModels } from '../models/pulled-models.ts';
import { deleteModel } from '../models/remove.ts';
import type { CliContext } from '../cli-context.ts';
import { BlobStore } from './blob-store.ts';
import { ModelIndex } from './model-index.ts';
import { readDefaults, saveDefaults } from './defaults.ts';
import { type DownloadListener, SharedDownloads } from './shared-downloads.ts';
import { inUseReasons } from './model-role.ts';
import { hubReference, pathForName } from './model-names.ts';
import { mapFiles, type FileMapping, installModel } from './install-model.ts';
import { toHttpError } from './http-errors.ts';

interface StoreOptions {
  readonly cli: Pick<CliContext, 'env' | 'packageRoot' | 'pull'>;
  readonly dataDir: string;
  /** The role of the model at this location; undefined where it is not in use. */
  readonly roleOf: (location: string) => ModelRole | undefined;
}

export class DataDirStore implements ModelStore {
  readonly #roleOf: StoreOptions['roleOf'];
  readonly #folder: string;
  readonly #models: ModelIndex;
  readonly #blobs: BlobStore;
  readonly #downloads: SharedDownloads;
  /** Tail of the queue of changes to the models folder, which run one at a time. */
  #lastChange: Promise<unknown> = Promise.resolve();

  constructor({ cli, dataDir, roleOf }: StoreOptions) {
    this.#roleOf = roleOf;
    this.#folder = modelsDir(dataDir);
    this.#models = new ModelIndex({ cli, dataDir, folder: this.#folder });
    this.#blobs = new BlobStore(join(dataDir, 'blobs'));
    this.#downloads = new SharedDownloads(async ({ repo, file, revision }, listener, signal) => {
      const token = cli.env['HF_TOKEN'];
      const endpoint = cli.env['HF_ENDPOINT'];
      const { path } = await cli.pull({
        repo,
        ...(file === undefined ? {} : { file }),
        ...(revision === undefined ? {} : { revision }),
        ...(token ? { token } : {}),
        ...(endpoint ? { endpoint } : {}),
        destination: this.#folder,
        ...listener,
        signal,
      });
      return path;
    });
  }

  list(): Promise<ModelRow[]> {
    return this.#models.list();
  }

  async find(name: string): Promise<StoredModel | undefined> {
    const found = await this.#models.find(name);
    return found && { name: found.name, location: found.path };
  }

  isNameOfAnother(name: string, location: string): Promise<boolean> {
    return this.#models.isNameOfAnother(name, location);
  }

  isSame(model: StoredModel, location: string): Promise<boolean> {
    return this.#models.isSame(model.location, location);
  }

  readCard(model: StoredModel, whole = false): Promise<ModelCard> {
    return this.#models.card(model, whole);
  }

  async readDefaults({ location }: StoredModel): Promise<ModelDefaults> {
    const found = await this.#models.findByLocation(location);
    return found ? await readDefaults(this.#folder, found.files) : {};
  }

  roleOf(location: string): ModelRole | undefined {
    return this.#roleOf(location);
  }

  async pull(
    name: string,
    { onProgress, onNotice }: PullListener,
    signal: AbortSignal,
  ): Promise<StoredModel> {
    const reference = hubReference(name);
    if (!reference) throw invalidRepository(name);
    try {
      const listener: DownloadListener = {
        onProgress: ({ file, part }) => onProgress({ file, ...part }),
        onNotice,
      };
      const location = await this.#downloads.pull(reference, listener, signal);
      return { name: (await this.#models.findByLocation(location))?.name ?? basename(location), location };
    } catch (error) {
      throw toHttpError(error);
    }
  }

  remove(model: StoredModel): Promise<void> {
    return this.#enqueue(() => this.#remove(model));
  }

  copy(model: StoredModel, name: string): Promise<void> {
    return this.#enqueue(() => this.#copy(model, name));
  }

  create(name: string, newModel: NewModel): Promise<void> {
    return this.#enqueue(() => this.#create(name, newModel));
  }

  #enqueue(change: () => Promise<void>): Promise<void> {
    const done = this.#lastChange.then(change);
    this.#lastChange = done.catch(() => undefined);
    return done;
  }

  async #remove({ name, location }: StoredModel): Promise<void> {
    const found = await this.#models.findByLocation(location);
    if (!found) throw modelFilesMissing(name);
    if (found.files.length === 0) {
      const message = `'${name}' is embedded in the host and cannot be deleted`;
      throw new HttpError(400, 'embedded_model', message, { param: 'model' });
    }
    this.#assertNotInUse(found);
    await deleteModel(this.#folder, found);
  }

  async #copy(model: StoredModel, name: string): Promise<void> {
    const place = pathForName(name);
    await this.#place(place, await this.#filesOf(model, place), await this.readDefaults(model), {});
  }

  async #create(name: string, { source, ...defaults }: NewModel): Promise<void> {
    const place = pathForName(name);
    if ('location' in source) {
      const kept = await this.readDefaults(source);
      const all: ModelDefaults = {
        system: defaults.system ?? kept.system,
        parameters: { ...kept.parameters, ...defaults.parameters },
      };
      const files = await this.#filesOf(source, place);
      await this.#place(place, files, all, { replace: true, from: source.location });
      return;
    }
    const uploads = await this.#findUploads(source);
    const files = Array.from(uploads, ([file, from]) => ({
      from,
      to: uploads.size === 1 ? `${place}.gguf` : `${place}/${file}`,
    }));
    await this.#place(place, files, defaults, { replace: true });
    for (const path of uploads.values()) await this.#blobs.remove(path);
  }

  async hasBlob(digest: string): Promise<boolean> {
    return (await this.#blobs.path(digest)) !== undefined;
  }

  async putBlob(digest: string, bytes: AsyncIterable<Uint8Array>): Promise<void> {
    try {
      await this.#blobs.put(digest, bytes);
    } catch (error) {
      throw toHttpError(error);
    }
  }

  async #filesOf({ name, location }: StoredModel, place: string): Promise<FileMapping[]> {
    const model = (await this.#models.findByLocation(location)) ?? { path: location, files: [] };
    // The model was deleted meanwhile, or was loaded from a URL.
    if (model.files.length === 0 && !(await isFile(location))) throw modelFilesMissing(name);
    return mapFiles(place, this.#folder, model);
  }

  /**
   * Validates the files as a model and moves them to the name's path.
   * @param from location of the stored model that the files belong to; if it is the target, only the defaults change
   */
  async #place(
    place: string,
    files: readonly FileMapping[],
    defaults: ModelDefaults,
    { replace = false, from }: { replace?: boolean; from?: string },
  ): Promise<void> {
    const isFolder = files.length > 1 && files.every(({ to }) => to.startsWith(`${place}/`));
    const roots = isFolder ? [place] : files.map(({ to }) => to);
    const entry = (roots[0] ?? '').split('/');
    const removeExisting = async () => {
      const old = (await pulledModels(this.#folder)).find(({ name }) => name === place);
      if (!old) return;
      this.#assertNotInUse(old);
      if (old.path !== from) await deleteModel(this.#folder, old);
    };
    const validate = async (staged: string) => {
      const problem = await this.#models.problemOf(join(staged, ...entry));
      if (problem === undefined) return;
      const message = `this cannot be served: ${problem.replaceAll(`${basename(staged)}/`, '')}`;
      throw new HttpError(400, 'unusable_model', message);
    };
    const beforeRename = () => saveDefaults(this.#folder, files.map(({ to }) => to).toSorted(), defaults);
    try {
      if (from === join(this.#folder, ...entry)) {
        await removeExisting();
        await beforeRename();
      } else
        await installModel(
          this.#folder,
          { files, roots },
          { validate, beforeRename, ...(replace ? { removeExisting } : {}) },
        );
    } catch (error) {
      throw toHttpError(error);
    }
  }

  async #findUploads(files: ReadonlyMap<string, string>): Promise<Map<string, string>> {
    const found = new Map<string, string>();
    for (const [name, digest] of files) {
      if (!isPortableName(name))
        throw new HttpError(400, 'invalid_value', `files: '${name.slice(0, 100)}' is not a valid file name`);
      const path = await this.#blobs.path(digest);
      if (path === undefined) {
        const message = `files: there is no upload ${digest}; send it with POST /api/blobs/${digest} first`;
        throw new HttpError(400, 'no_such_blob', message);
      }
      found.set(name, path);
    }
    const [only = ''] = found.keys();
    if (found.size === 1 && !isGgufModelPath(only))
      throw new HttpError(
        400,
        'invalid_value',
        `files: '${only}' is not a GGUF file; expected a name that ends in .gguf`,
      );
    return found;
  }

  #assertNotInUse({ name, path }: PulledModel): void {
    const role = this.#roleOf(path);
    if (role === undefined) return;
    throw new HttpError(409, 'model_in_use', `'${name}' ${inUseReasons[role]}`, { param: 'model' });
  }
}

const isFile = (path: string): Promise<boolean> =>
  stat(path).then(
    (found) => found.isFile(),
    () => false,
  );

const modelFilesMissing = (name: string): HttpError =>
  new HttpError(
    404,
    'model_not_found',
    `the model '${name.slice(0, 200)}' has no files in the data directory`,
    {
      param: 'model',
    },
  );

const invalidRepository = (name: string): HttpError =>
  new HttpError(
    400,
    'invalid_reference',
    `'${name.slice(0, 200)}' is not a repository: expected hf.co/OWNER/NAME`,
    {
      param: 'model',
    },
  );
