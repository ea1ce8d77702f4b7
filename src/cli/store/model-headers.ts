/** Cache of model headers. A header is read again when the model's files change. */
import { inspectModel, type ModelFacts, modelId, openModelFile } from '../../engine/index.ts';
import type { CliContext } from '../cli-context.ts';
import { describeModelError, createPlatform } from '../models/inspect.ts';

type Metadata = ReadonlyMap<string, unknown>;

/** A model's header, or why it cannot be read. */
export type ModelHeader =
  | {
      readonly facts: ModelFacts;
      /** Id of the model when it is resident. */
      readonly id: string;
      /** Long lists, such as vocabularies, are replaced by null. */
      readonly metadata: Metadata;
    }
  | { readonly problem: string };

/** Limit of cached headers. Each has a few kilobytes. */
const maxKept = 256;
/** Limit of elements of a cached list. */
const maxListLength = 64;

export class ModelHeaderCache {
  readonly #cli: Pick<CliContext, 'env'>;
  readonly #cached = new Map<string, { readonly stamp: string; readonly header: Promise<ModelHeader> }>();

  constructor(cli: Pick<CliContext, 'env'>) {
    this.#cli = cli;
  }

  /** @param stamp hash of the files' names, sizes and times */
  read(location: string, stamp: string): Promise<ModelHeader> {
    const cached = this.#cached.get(location);
    if (cached?.stamp === stamp) return cached.header;
    const header = this.#readHeader(location, false);
    this.#cached.delete(location);
    this.#cached.set(location, { stamp, header });
    const [oldest] = this.#cached.keys();
    if (this.#cached.size > maxKept && oldest !== undefined) this.#cached.delete(oldest);
    // An unexpected error is not cached.
    header.catch(() => this.#cached.delete(location));
    return header;
  }

  /** Reads the header with all its lists. Not cached. */
  readWithLists(location: string): Promise<ModelHeader> {
    return this.#readHeader(location, true);
  }

  async #readHeader(location: string, withLists: boolean): Promise<ModelHeader> {
    try {
      const file = await openModelFile(await createPlatform(this.#cli).modelFiles(location));
      try {
        const facts = await inspectModel(file);
        return {
          facts,
          id: modelId(file),
          metadata: withLists ? file.metadata : withoutLongLists(file.metadata),
        };
      } finally {
        await file.close();
      }
    } catch (error) {
      return { problem: describeModelError(error) };
    }
  }
}

const withoutLongLists = (metadata: Metadata): Metadata =>
  new Map(
    Array.from(metadata, ([key, value]) => {
      const long = (Array.isArray(value) || ArrayBuffer.isView(value)) && lengthOf(value) > maxListLength;
      return [key, long ? null : value] as const;
    }),
  );

const lengthOf = (value: readonly unknown[] | ArrayBufferView): number =>
  'length' in value ? value.length : value.byteLength;
