import { sql } from 'kysely';
import { HttpError } from '../../../http/error.ts';
import { bodyLimitBytes } from '../../../http/route.ts';
import { invalidBodyError } from '../../../http/violations.ts';
import { StoreError, type Store, type StoreReader, type Tables } from '../../../store/index.ts';
import type { ResponseObject } from '../../../wires/responses/answer-schema.ts';
import type { InputItem } from '../../../wires/responses/items-schema.ts';
import { writeStoredItem } from '../../../wires/responses/stored-items.ts';

export interface ResponseStoreOptions {
  readonly store: Store;
  /** Responses are deleted this many days after they were made. */
  readonly retentionDays: number;
}

/** Items of the responses that a request continues. */
export interface EarlierItems {
  /** Whether they are in the database. */
  readonly isStored: boolean;
  readonly items: readonly InputItem[];
  /** Size of the items, in bytes of JSON. */
  readonly bytes: number;
}

/** A finished response and its request. */
export interface FinishedResponse {
  readonly response: ResponseObject;
  /** Items of the responses that it continues. */
  readonly earlier: EarlierItems;
  /** Items of its own request. */
  readonly input: readonly InputItem[];
}

/** A listed item; items of all types have an id. */
export type StoredItem = Readonly<Record<string, unknown>> & { readonly id: string };

const dayMs = 86_400_000;

/** Responses in the host's database. A response belongs to the caller who asked for it; others do not find it. */
export class ResponseStore {
  readonly #store: Store;
  readonly #retentionDays: number;

  constructor({ store, retentionDays }: ResponseStoreOptions) {
    this.#store = store;
    this.#retentionDays = retentionDays;
  }

  /** Stores a finished response. @param by the caller */
  async save({ response, earlier, input }: FinishedResponse, by: string): Promise<void> {
    const { output, ...members } = response;
    const own = earlier.isStored ? input : [...earlier.items, ...input];
    const texts = { input: JSON.stringify(own.map(writeStoredItem)), output: JSON.stringify(output) };
    const row = {
      ...texts,
      id: response.id,
      endpoint_id: this.#store.endpointId,
      owner: ownerOf(by),
      previous: earlier.isStored ? response.previous_response_id : null,
      status: response.status,
      created_at: this.#store.time(),
      response: JSON.stringify(members),
      events: null,
      context_bytes:
        (earlier.isStored ? earlier.bytes : 0) +
        Buffer.byteLength(texts.input) +
        Buffer.byteLength(texts.output),
    };
    await stored(() => this.#store.transaction((tx) => tx.insertInto('responses').values(row).execute()));
  }

  /** The events of a finished response that was streamed in the background. @throws HttpError 404 */
  async events(id: string, by: string): Promise<readonly string[] | undefined> {
    const row = await this.#read(id, by);
    if (!row) throw unknownResponse(id);
    return row.events === null ? undefined : (JSON.parse(row.events) as string[]);
  }

  /** @throws HttpError 404 */
  async get(id: string, by: string): Promise<ResponseObject> {
    const row = await this.#read(id, by);
    if (!row) throw unknownResponse(id);
    return { ...parseResponse(row), output: JSON.parse(row.output) };
  }

  /**
   * The items of a response and of those that it continues, the oldest first.
   * @throws HttpError 400 where one of them is not stored any more, or where they are too many
   */
  async conversation(id: string, by: string): Promise<EarlierItems> {
    const head = await this.#read(id, by);
    if (!head) throw unknownPrevious(id);
    if (head.status === 'queued' || head.status === 'in_progress')
      throw invalidBodyError([
        { path: 'previous_response_id', message: `'${id}' is ${head.status}; wait until it is finished` },
      ]);
    if (head.context_bytes > bodyLimitBytes)
      throw new HttpError(
        400,
        'context_length_exceeded',
        `The conversation of '${id}' has ${head.context_bytes} bytes, more than the ${bodyLimitBytes} of a request. Start another one.`,
        { param: 'previous_response_id' },
      );
    const { rows, missing } = await this.#chain(id, by);
    if (missing !== undefined) throw unknownPrevious(missing, id);
    const items = rows.flatMap(({ input, output }) => [...parseItems(input), ...parseItems(output)]);
    return { isStored: true, items, bytes: head.context_bytes };
  }

  /**
   * The items that a response was made from, the oldest first: those of the stored responses that it continues, and its
   * own.
   * @throws HttpError 404
   */
  async inputItems(id: string, by: string): Promise<readonly StoredItem[]> {
    const { rows } = await this.#chain(id, by);
    const own = rows.pop();
    if (!own) throw unknownResponse(id);
    const earlier = rows.flatMap(({ input, output }) => [...parseItems(input), ...parseItems(output)]);
    return [...earlier, ...parseItems(own.input)] as unknown as readonly StoredItem[];
  }

  /**
   * Deletes a response, from the bytes of the database too.
   * @throws HttpError 404
   */
  async delete(id: string, by: string): Promise<void> {
    const isFound = await stored(() =>
      this.#store.erase(async (tx) => {
        const { numDeletedRows } = await tx
          .deleteFrom('responses')
          .where(this.#visible(by, id))
          .executeTakeFirst();
        return numDeletedRows > 0n;
      }),
    );
    if (!isFound) throw unknownResponse(id);
  }

  /** The condition of the row of a response that the caller may see. */
  #visible(by: string, id: string) {
    // A peer that was minted again under the same name is another one.
    const isSamePeer = by.startsWith('peer:')
      ? sql`and exists (select 1 from peers
          where peers.name = ${by.slice('peer:'.length)} and peers.minted_at <= responses.created_at)`
      : sql``;
    return sql<boolean>`responses.id = ${id} and ${this.#kept(by)} ${isSamePeer}`;
  }

  #kept(by: string) {
    const cutoff = cutoffTime(this.#store, this.#retentionDays);
    return sql<boolean>`responses.owner = ${ownerOf(by)} and responses.created_at > ${cutoff}`;
  }

  #read(id: string, by: string) {
    return stored(() =>
      this.#store.read((db) =>
        db
          .selectFrom('responses')
          .where(this.#visible(by, id))
          .select(['response', 'output', 'context_bytes', 'status', 'events'])
          .executeTakeFirst(),
      ),
    );
  }

  /** A response and those that it continues, the oldest first, and the id of the first that is missing. */
  async #chain(id: string, by: string) {
    const query = sql<Pick<Tables['responses'], 'previous' | 'input' | 'output'>>`
      with recursive chain as (
        select id, previous, input, output, 0 as depth from responses where ${this.#visible(by, id)}
        union all
        select responses.id, responses.previous, responses.input, responses.output, chain.depth + 1
        from responses join chain on responses.id = chain.previous where ${this.#kept(by)}
      ) select previous, input, output from chain order by depth desc`;
    const { rows } = await stored(() => this.#store.read((db) => query.execute(db)));
    return { rows, missing: rows[0]?.previous ?? undefined };
  }
}

/** Deletes the responses that are older than `retentionDays`. @returns how many */
export async function deleteExpiredResponses(store: Store, retentionDays: number): Promise<number> {
  const cutoff = cutoffTime(store, retentionDays);
  const expired = (db: StoreReader) =>
    db.selectFrom('responses').select('id').where('created_at', '<=', cutoff).executeTakeFirst();
  if (!store.isEraseDue && !(await store.read(expired))) return 0;
  return await store.erase(async (tx) => {
    const { numDeletedRows } = await tx
      .deleteFrom('responses')
      .where('created_at', '<=', cutoff)
      .executeTakeFirst();
    return Number(numDeletedRows);
  });
}

const cutoffTime = (store: Store, days: number): string =>
  new Date(store.now().getTime() - days * dayMs).toISOString();

/** Every caller but a peer acts for the host: its bearer, its operator, and whoever is on the machine. */
const ownerOf = (by: string): Tables['responses']['owner'] => (by.startsWith('peer:') ? by : 'host');

/** A response without its output. */
type ResponseMembers = Omit<ResponseObject, 'output'>;

const parseResponse = ({ response }: { readonly response: string }): ResponseMembers =>
  JSON.parse(response) as ResponseMembers;

const parseItems = (text: string): InputItem[] => JSON.parse(text) as InputItem[];

const unknownResponse = (id: string): HttpError =>
  new HttpError(
    404,
    'response_not_found',
    `Response with id '${id.slice(0, 100)}' not found: it was never stored, has been deleted or is too old.`,
  );

/** @param from the response that continues it, where that one is stored */
export const unknownPrevious = (id: string, from?: string): HttpError =>
  new HttpError(
    400,
    'previous_response_not_found',
    `Previous response with id '${id.slice(0, 100)}' not found: it was never stored, has been deleted or is too old.` +
      (from === undefined ? '' : ` '${from}' continues it. Send the whole conversation as input.`),
    { param: 'previous_response_id' },
  );

/** Runs `work`, whose database errors become 503s. */
async function stored<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    throw new HttpError(503, error.code, `The response cannot be stored or read: ${error.message}.`, {
      cause: error,
      headers: { 'retry-after': '5' },
    });
  }
}
