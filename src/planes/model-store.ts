import type { ModelInfo } from '../engine/index.ts';

/** A model that the host can serve: pulled, created, copied, or embedded in the build. */
export interface StoredModel {
  /** Name in model lists. */
  readonly name: string;
  /** Location that the engine loads from. */
  readonly location: string;
}

/** Request defaults stored with a model by `POST /api/create`. */
export interface ModelDefaults {
  readonly system?: string | undefined;
  /** Keyed by Ollama's option names. */
  readonly parameters?: Readonly<Record<string, unknown>> | undefined;
}

/** A model in a model list. */
export interface ModelRow extends StoredModel {
  readonly sizeBytes: number;
  readonly modifiedAt: Date;
  /**
   * 64 hex digits: the digest of the weights where they were read completely, else of the names, sizes and times of the
   * files.
   */
  readonly digest: string;
  /** `gguf`, `safetensors` or `mlc`. */
  readonly format: string;
  readonly architecture: string;
  readonly parameters: number;
  readonly quantization: string;
  /** Undefined where the header cannot be read. */
  readonly kind: ModelInfo['kind'] | undefined;
  /** Memory for one sequence at the default context, and that context in tokens; undefined where it is not known. */
  readonly memory: { readonly context: number; readonly bytes: number } | undefined;
  /** Whether its files are in the data directory: not those of the embedded model and of models from elsewhere. */
  readonly isStored: boolean;
  /** Why the model cannot be served, as a sentence. */
  readonly problem: string | undefined;
}

/**
 * What a model that is loaded or being loaded is to the host: the resident one, the one of `--embedding-model`, one that
 * was loaded beside the resident one, or the draft model of one.
 */
export type ModelRole = 'main' | 'embedding' | 'further' | 'draft';

/** A model with the contents of its header. */
export interface ModelCard extends Omit<ModelRow, 'kind'> {
  /** Long lists are null unless the whole header was requested. */
  readonly metadata: ReadonlyMap<string, unknown>;
  /** Whether the model supports fill-in-the-middle. */
  readonly canInsert: boolean;
  readonly kind: ModelInfo['kind'];
  /** How a text's rows become its embedding. */
  readonly pooling: ModelInfo['pooling'] | undefined;
  readonly defaults: ModelDefaults;
}

/** Progress of a download, in bytes; `file` is the current file. */
export interface PullProgress {
  readonly file: string;
  readonly digest: string;
  readonly doneBytes: number;
  readonly totalBytes: number;
}

/** Receives the progress of a download. */
export interface PullListener {
  readonly onProgress: (progress: PullProgress) => void;
  /** Called with messages for the user, such as a stalled hub or another attempt. */
  readonly onNotice: (message: string) => void;
}

/** Source and defaults of a new model. */
export interface NewModel extends ModelDefaults {
  /** A stored model, or uploaded files by their digests. */
  readonly source: StoredModel | ReadonlyMap<string, string>;
}

/** Models in the data directory. Refusals are `HttpError`s. */
export interface ModelStore {
  list(): Promise<ModelRow[]>;
  /** Undefined where no model has the name. @throws HttpError where several models have it */
  find(name: string): Promise<StoredModel | undefined>;
  /** See `OtherModels.isNameOfAnother`. */
  isNameOfAnother(name: string, location: string): Promise<boolean>;
  /** Whether the weights of a model are the ones at a location, under another name. */
  isSame(model: StoredModel, location: string): Promise<boolean>;
  /** @param includeLists include every list of the header */
  readCard(model: StoredModel, includeLists?: boolean): Promise<ModelCard>;
  readDefaults(model: StoredModel): Promise<ModelDefaults>;
  /** The role of the model at a location; undefined where it is not in use. */
  roleOf(location: string): ModelRole | undefined;
  /** Downloads a model or resumes its download. Concurrent calls for the same model share one download. */
  pull(reference: string, listener: PullListener, signal: AbortSignal): Promise<StoredModel>;
  remove(model: StoredModel): Promise<void>;
  copy(model: StoredModel, name: string): Promise<void>;
  create(name: string, model: NewModel): Promise<void>;
  /** Uploaded files for creating models, keyed by `sha256:<hex>`. */
  hasBlob(digest: string): Promise<boolean>;
  putBlob(digest: string, bytes: AsyncIterable<Uint8Array>): Promise<void>;
}
