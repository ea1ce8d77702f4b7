import type { Store, Tx } from '../../../store/index.ts';
import type { ResponseObject } from '../../../wires/responses/answer-schema.ts';

/** A response without its output. */
type ResponseMembers = Omit<ResponseObject, 'output'>;

const interrupted = {
  code: 'server_error',
  message: 'The host stopped before the response was finished.',
};

/** States of the stored responses that are answered in the background. Rejects with `StoreError`. */
export class QueuedResponses {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  /** Notes that a queued response is being answered. */
  async begin(id: string): Promise<void> {
    await this.#store.transaction(async (tx) => {
      const row = await tx.selectFrom('responses').select('response').where('id', '=', id).executeTakeFirst();
      if (row) await update(tx, { ...parseResponse(row), id, status: 'in_progress' });
    });
  }

  /** Stores the end of a response, unless it was deleted meanwhile. @param events of its stream */
  async finish({ output, ...members }: ResponseObject, events: readonly string[] | undefined): Promise<void> {
    const text = JSON.stringify(output);
    await this.#store.transaction(async (tx) => {
      await update(tx, members);
      await tx
        .updateTable('responses')
        .set(({ eb }) => ({
          output: text,
          events: events ? JSON.stringify(events) : null,
          context_bytes: eb('context_bytes', '+', Buffer.byteLength(text)),
        }))
        .where('id', '=', members.id)
        .execute();
    });
  }

  /** Marks as failed what an earlier start of this host did not finish. */
  async failInterrupted(): Promise<void> {
    await this.#store.transaction(async (tx) => {
      const rows = await tx
        .selectFrom('responses')
        .select('response')
        .where('endpoint_id', '=', this.#store.endpointId)
        .where('status', 'in', ['queued', 'in_progress'])
        .execute();
      for (const row of rows)
        await update(tx, { ...parseResponse(row), status: 'failed', error: interrupted });
    });
  }
}

const parseResponse = ({ response }: { readonly response: string }): ResponseMembers =>
  JSON.parse(response) as ResponseMembers;

const update = (tx: Tx, members: ResponseMembers) =>
  tx
    .updateTable('responses')
    .set({ status: members.status, response: JSON.stringify(members) })
    .where('id', '=', members.id)
    .execute();
