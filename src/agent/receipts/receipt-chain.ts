import { sql } from 'kysely';
import { type SigningKey, signBytes } from '../../signing/ed25519.ts';
import type { Store, Tx } from '../../store/index.ts';
import { AgentError } from '../errors.ts';
import type { ReceiptStore } from '../services.ts';
import type { ReceiptBody, WorkReceipt } from '../shapes/receipt.ts';
import { firstPrevDigest, computeReceiptDigest } from './receipt-digest.ts';

/** Name of the counter of a host's receipts. */
export const receiptCounterName = (endpointId: string): string => `receipt:${endpointId}`;

/**
 * The receipt chain of this host: each receipt holds the digest of the previous one and is signed with the host's key.
 */
export class ReceiptChain implements ReceiptStore {
  readonly #store: Store;
  readonly #key: SigningKey;

  constructor({ store, key }: { store: Store; key: SigningKey }) {
    this.#store = store;
    this.#key = key;
  }

  async add(tx: Tx, body: ReceiptBody): Promise<WorkReceipt> {
    const { endpointId } = this.#store;
    const seq = await this.#nextSeq(tx);
    const previous = await tx
      .selectFrom('receipts')
      .select('digest')
      .where('endpoint_id', '=', endpointId)
      .orderBy('seq', 'desc')
      .limit(1)
      .executeTakeFirst();
    const signed = {
      ...(withWellFormedTexts(body) as ReceiptBody),
      contract: 1 as const,
      endpoint_id: endpointId,
      seq,
      prev_digest: previous?.digest ?? firstPrevDigest,
    };
    const digest = computeReceiptDigest(signed);
    const value = signBytes(Buffer.from(digest), this.#key);
    const receipt: WorkReceipt = {
      ...signed,
      digest,
      signature: { alg: 'ed25519', key_id: this.#key.keyId, value },
    };
    const { id, kind, ended_at, prev_digest } = receipt;
    await tx
      .insertInto('receipts')
      .values({
        endpoint_id: endpointId,
        seq,
        id,
        kind,
        ended_at,
        prev_digest,
        digest,
        receipt: JSON.stringify(receipt),
      })
      .execute();
    return receipt;
  }

  async get(id: string): Promise<WorkReceipt> {
    const row = await this.#store.read((db) =>
      db.selectFrom('receipts').select('receipt').where('id', '=', id).executeTakeFirst(),
    );
    if (row) return JSON.parse(row.receipt) as WorkReceipt;
    throw new AgentError(
      'not_found',
      'no_receipt',
      'This session has no receipt: it has not ended, or it does not exist.',
    );
  }

  /** Receipts of this host, newest first. */
  async newest(limit: number): Promise<WorkReceipt[]> {
    const { endpointId } = this.#store;
    const rows = await this.#store.read((db) =>
      db
        .selectFrom('receipts')
        .select('receipt')
        .where('endpoint_id', '=', endpointId)
        .orderBy('seq', 'desc')
        .limit(limit)
        .execute(),
    );
    return rows.map(({ receipt }) => JSON.parse(receipt) as WorkReceipt);
  }

  /** The next `seq`. Locks the counter row, so concurrent transactions wait here for each other. */
  async #nextSeq(tx: Tx): Promise<number> {
    const name = receiptCounterName(this.#store.endpointId);
    await tx
      .insertInto('counters')
      .values({ name, value: 0 })
      .onConflict((conflict) => conflict.column('name').doNothing())
      .execute();
    const { value } = await tx
      .updateTable('counters')
      .set({ value: sql`value + 1` })
      .where('name', '=', name)
      .returning('value')
      .executeTakeFirstOrThrow();
    return value;
  }
}

/** Replaces lone surrogates in texts of clients, because they have no canonical JSON. */
const withWellFormedTexts = (body: object): object =>
  Object.fromEntries(
    Object.entries(body)
      .filter(([, value]) => value !== undefined)
      .map(([name, value]: [string, unknown]) => [
        name,
        typeof value === 'string' ? value.toWellFormed() : value,
      ]),
  );
