/** A model that the host could serve: pulled, created, copied, or the embedded one. */
export interface StoredModel {
  /** What lists call it. */
  readonly name: string;
  /** Where it lies: what the engine loads. */
  readonly location: string;
}

/** What is stored of a model beside its weights: defaults of requests, by `POST /api/create`. */
export interface ModelDefaults {
  readonly system?: string | undefined;
  /** By the names of Ollama's options. */
  readonly parameters?: Readonly<Record<string, unknown>> | undefined;
}

/** A model as a list shows it. */
export interface ModelRow extends StoredModel {
  readonly sizeBytes: number;
  readonly modifiedAt: Date;
  /** 64 hex digits. Of the weights where they were read through, else of the files' names, sizes and times. */
  readonly digest: string;
  /** `gguf`, `safetensors` or `mlc`. */
  readonly format: string;
  readonly architecture: string;
  readonly parameters: number;
  readonly quantization: string;
  /** Why it could not be served, in words. */
  readonly problem: string | undefined;
}

/** A model with all that its header tells. */
export interface ModelCard extends ModelRow {
  /** Null in place of long lists, unless the whole header was asked for. */
  readonly metadata: ReadonlyMap<string, unknown>;
  /** It fills in the middle of a text. */
  readonly insert: boolean;
  readonly kind: 'generate' | 'embed';
  readonly defaults: ModelDefaults;
}

/** Bytes of a download; `file` is the one under way. */
export interface PullProgress {
  readonly file: string;
  readonly digest: string;
  readonly done: number;
  readonly total: number;
}

/** Whoever waits for a download. */
export interface PullListener {
  readonly onProgress: (progress: PullProgress) => void;
  /** What a person who waits should know: a hub that sends nothing, another attempt. */
  readonly onNotice: (message: string) => void;
}

/** What a new model is made of. */
export interface NewModel extends ModelDefaults {
  /** A stored model, or files by the digests of uploads. */
  readonly source: StoredModel | ReadonlyMap<string, string>;
}

/** The models of the data directory. Refusals are `HttpError`s. */
export interface ModelStore {
  list(): Promise<ModelRow[]>;
  /** Undefined where there is none; a `HttpError` where several are called so. */
  find(name: string): Promise<StoredModel | undefined>;
  /** Whether a model's weights are those at this place, under another name. */
  isSame(model: StoredModel, location: string): Promise<boolean>;
  /** @param whole with every list of the header */
  card(model: StoredModel, whole?: boolean): Promise<ModelCard>;
  defaults(model: StoredModel): Promise<ModelDefaults>;
  /** Downloads a model, or goes on with it; whoever asks for the same at the same time shares the download. */
  pull(reference: string, listener: PullListener, signal: AbortSignal): Promise<StoredModel>;
  remove(model: StoredModel): Promise<void>;
  copy(model: StoredModel, name: string): Promise<void>;
  create(name: string, made: NewModel): Promise<void>;
  /** Uploads, by `sha256:<hex>`, to create models from. */
  hasBlob(digest: string): Promise<boolean>;
  putBlob(digest: string, bytes: AsyncIterable<Uint8Array>): Promise<void>;
}
