import type { KeyObject } from 'node:crypto';
import { fits, keyIdOf, rawPublicKey } from '../../signing/ed25519.ts';
import type { Store, Tables } from '../../store/index.ts';
import { isRecord } from '../../util/json.ts';
import type { WorkReceipt } from '../shapes/receipt.ts';
import { chainCounter } from './chain.ts';
import { chainStart, receiptDigest } from './digest.ts';

export interface ChainVerdict {
  readonly ok: boolean;
  /** Those that are in order, from the first one on. */
  readonly receipts: number;
  /** The place of the first one that is not. */
  readonly first_bad?: number;
  readonly reason?: string;
}

/** Rows that are read at a time. */
const batch = 500;

/**
 * Reads the chain of the store's host from its first receipt on, also while the host adds to it. It finds whatever was
 * changed, taken out, put in or moved. That the last ones were cut off it finds by the count that the host keeps
 * beside them; who can write to the database can change that count as well, so keep an exported receipt: its place in
 * the chain shows how long it once was.
 */
export async function verifyReceipts(store: Store, publicKey: KeyObject): Promise<ChainVerdict> {
  const { endpointId } = store;
  const counted = await store.read((db) =>
    db.selectFrom('counters').select('value').where('name', '=', chainCounter(endpointId)).executeTakeFirst(),
  );
  let verified = 0;
  let before = chainStart;
  for (;;) {
    const rows = await store.read((db) =>
      db
        .selectFrom('receipts')
        .selectAll()
        .where('endpoint_id', '=', endpointId)
        .where('seq', '>', verified)
        .orderBy('seq')
        .limit(batch)
        .execute(),
    );
    for (const row of rows) {
      const reason = faultOfRow(row, verified + 1, before, publicKey);
      if (reason !== undefined) return { ok: false, receipts: verified, first_bad: verified + 1, reason };
      verified += 1;
      before = row.digest;
    }
    if (rows.length === 0) break;
  }
  const expected = counted?.value ?? 0;
  if (verified >= expected) return { ok: true, receipts: verified };
  const reason = `the chain ends at ${verified}, but ${expected} receipts were written: the last ones are missing`;
  return { ok: false, receipts: verified, first_bad: verified + 1, reason };
}

/**
 * Judges one receipt by itself, as `GET .../receipt` gave it.
 * @returns what is wrong with it, or nothing
 */
export function faultOfReceipt(receipt: unknown, publicKey: KeyObject): string | undefined {
  if (!isRecord(receipt)) return 'it is no JSON object';
  const { digest, signature } = receipt as Partial<WorkReceipt>;
  if (
    typeof digest !== 'string' ||
    typeof signature?.value !== 'string' ||
    typeof signature.key_id !== 'string'
  )
    return 'it has no digest or no signature';
  const own = ownDigest(receipt);
  if (own === undefined) return 'it has no canonical JSON';
  if (own !== digest) return 'its members are not those that were signed: the digest is another one';
  const raw = rawPublicKey(publicKey);
  if (signature.alg !== 'ed25519') return 'its signature is not of the kind ed25519';
  if (signature.key_id !== keyIdOf(raw)) return `it is signed by ${signature.key_id}, not by ${keyIdOf(raw)}`;
  return fits(Buffer.from(digest), raw, signature.value) ? undefined : 'its signature does not fit';
}

function faultOfRow(
  row: Tables['receipts'],
  seq: number,
  before: string,
  publicKey: KeyObject,
): string | undefined {
  if (row.seq !== seq) return `receipt ${seq} is missing: the next one there is ${row.seq}`;
  let receipt: Partial<WorkReceipt>;
  try {
    receipt = JSON.parse(row.receipt) as Partial<WorkReceipt>;
  } catch {
    return 'it is no JSON';
  }
  const fault = faultOfReceipt(receipt, publicKey);
  if (fault !== undefined) return fault;
  const columns = ['endpoint_id', 'seq', 'id', 'kind', 'ended_at', 'prev_digest', 'digest'] as const;
  const other = columns.find((column) => receipt[column] !== row[column]);
  if (other !== undefined) return `its ${other} is not the one that it is stored under`;
  return receipt.prev_digest === before
    ? undefined
    : 'it does not follow the receipt before it: that one was replaced, or they were moved';
}

function ownDigest(receipt: object): string | undefined {
  try {
    return receiptDigest(receipt);
  } catch {
    return undefined;
  }
}
