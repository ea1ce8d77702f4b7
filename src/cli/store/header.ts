/** Cache of model headers. A header is read again when the model's files change. */
import { inspectModel, type ModelFacts, modelId, openModelFile } from '../../engine/index.ts';
import type { World } from '../world.ts';
import { faultOf, platformOf } from '../models/open.ts';

type Metadata = ReadonlyMap<string, unknown>;

/** A model's header, or why it cannot be read. */
export type Header =
  | {
      readonly facts: ModelFacts;
      /** Id of the model when it is resident. */
      readonly id: string;
      /** Long lists, such as vocabularies, are replaced by null. */
      readonly metadata: Metadata;
    }
  | { readonly problem: string };

/** Limit of cached headers. Each has a few kilobytes. */
const mostKept = 256;
/** Limit of elements of a cached list. */
const longList = 64;

export class Headers {
  readonly #world: Pick<World, 'env'>;
  readonly #kept = new Map<string, { readonly stamp: string; readonly header: Promise<Header> }>();

  constructor(world: Pick<World, 'env'>) {
    this.#world = world;
  }

  /** @param stamp hash of the files' names, sizes and times */
  read(location: string, stamp: string): Promise<Header> {
    const kept = this.#kept.get(location);
    if (kept?.stamp === stamp) return kept.header;
    const header = this.#open(location, false);
    this.#kept.delete(location);
    this.#kept.set(location, { stamp, header });
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > mostKept && oldest !== undefined) this.#kept.delete(oldest);
    // An unexpected error is not cached.
    header.catch(() => this.#kept.delete(location));
    return header;
  }

  /** Reads the header with all its lists. Not cached. */
  readWhole(location: string): Promise<Header> {
    return this.#open(location, true);
  }

  async #open(location: string, whole: boolean): Promise<Header> {
    try {
      const file = await openModelFile(await platformOf(this.#world).modelFiles(location));
      try {
        const facts = await inspectModel(file);
        return { facts, id: modelId(file), metadata: whole ? file.metadata : withoutLists(file.metadata) };
      } finally {
        await file.close();
      }
    } catch (error) {
      return { problem: faultOf(error) };
    }
  }
}

const withoutLists = (metadata: Metadata): Metadata =>
  new Map(
    Array.from(metadata, ([key, value]) => {
      const long = (Array.isArray(value) || ArrayBuffer.isView(value)) && lengthOf(value) > longList;
      return [key, long ? null : value] as const;
    }),
  );

const lengthOf = (value: readonly unknown[] | ArrayBufferView): number =>
  'length' in value ? value.length : value.byteLength;
