/** What a model's header tells, read once as long as its files stay the same. */
import { inspectModel, type ModelFacts, modelId, openModelFile } from '../../engine/index.ts';
import type { World } from '../world.ts';
import { faultOf, platformOf } from '../models/open.ts';

type Metadata = ReadonlyMap<string, unknown>;

/** A header, or why it cannot be read. */
export type Header =
  | {
      readonly facts: ModelFacts;
      /** What the model's id is when it is resident. */
      readonly id: string;
      /** Long lists, such as vocabularies, are null. */
      readonly metadata: Metadata;
    }
  | { readonly problem: string };

/** Headers kept; each is a few kilobytes. */
const mostKept = 256;
/** Elements of a list that is kept. */
const longList = 64;

export class Headers {
  readonly #world: Pick<World, 'env'>;
  readonly #kept = new Map<string, { readonly stamp: string; readonly header: Promise<Header> }>();

  constructor(world: Pick<World, 'env'>) {
    this.#world = world;
  }

  /** @param stamp changes with the files */
  read(location: string, stamp: string): Promise<Header> {
    const kept = this.#kept.get(location);
    if (kept?.stamp === stamp) return kept.header;
    const header = this.#open(location, false);
    this.#kept.delete(location);
    this.#kept.set(location, { stamp, header });
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > mostKept && oldest !== undefined) this.#kept.delete(oldest);
    // A fault of ours is not kept.
    header.catch(() => this.#kept.delete(location));
    return header;
  }

  /** The same with every list; not kept. */
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
