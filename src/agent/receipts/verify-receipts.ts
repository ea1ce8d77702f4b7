import type { KeyObject } from 'node:crypto';
import { verifySignature, computeKeyId, rawPublicKey } from '../../signing/ed25519.ts';
import type { Store, Tables } from '../../store/index.ts';
import { isRecord } from '../../util/json.ts';
import type { WorkReceipt } from '../shapes/receipt.ts';
import { receiptCounterName } from './receipt-chain.ts';
import { firstPrevDigest, computeReceiptDigest } from './receipt-digest.ts';

export interface ChainVerdict {
  readonly ok: boolean;
  /** Number of valid receipts, from the first one on. */
  readonly receipts: number;
  /** `seq` of the first invalid receipt. */
  readonly first_bad?: number;
  readonly reason?: string;
}

/** Rows that are fetched at a time. */
const readBatchSize = 500;

type ReceiptRow = Tables['receipts'];

/** The receipts of one host. */
export interface ReceiptRows {
  /** Number of receipts that the host counted. */
  count(): Promise<number>;
  /** Receipts after a `seq`, in order. */
  after(seq: number, limit: number): Promise<readonly ReceiptRow[]>;
}

/** The receipts of the store's host. */
export const storedReceipts = (store: Store): ReceiptRows => ({
  async count() {
    const counter = await store.read((db) =>
      db
        .selectFrom('counters')
        .select('value')
        .where('name', '=', receiptCounterName(store.endpointId))
        .executeTakeFirst(),
    );
    return counter?.value ?? 0;
  },
  after: (seq, limit) =>
    store.read((db) =>
      db
        .selectFrom('receipts')
        .selectAll()
        .where('endpoint_id', '=', store.endpointId)
        .where('seq', '>', seq)
        .orderBy('seq')
        .limit(limit)
        .execute(),
    ),
});

/**
 * Verifies a host's receipt chain from its first receipt. It may run while the host adds receipts. It
 * detects changed, removed, inserted and moved receipts. Missing receipts at the end are detected by the host's
 * counter; since an attacker with database access can change that counter, keep an exported receipt, whose `seq` proves
 * the length of the chain at that time.
 */
export async function verifyReceipts(all: ReceiptRows, publicKey: KeyObject): Promise<ChainVerdict> {
  const expected = await all.count();
  let verified = 0;
  let prevDigest = firstPrevDigest;
  for (;;) {
    const rows = await all.after(verified, readBatchSize);
    for (const row of rows) {
      const reason = findRowFault(row, verified + 1, prevDigest, publicKey);
      if (reason !== undefined) return { ok: false, receipts: verified, first_bad: verified + 1, reason };
      verified += 1;
      prevDigest = row.digest;
    }
    if (rows.length === 0) break;
  }
  if (verified >= expected) return { ok: true, receipts: verified };
  const reason = `the chain ends at ${verified}, but ${expected} receipts were written: the last ones are missing`;
  return { ok: false, receipts: verified, first_bad: verified + 1, reason };
}

/**
 * Verifies one receipt by itself, as returned by `GET .../receipt`.
 * @returns the reason why it is invalid; undefined when it is valid
 */
export function findReceiptFault(receipt: unknown, publicKey: KeyObject): string | undefined {
  if (!isRecord(receipt)) return 'it is not a JSON object';
  const { digest, signature } = receipt as Partial<WorkReceipt>;
  if (
    typeof digest !== 'string' ||
    typeof signature?.value !== 'string' ||
    typeof signature.key_id !== 'string'
  )
    return 'it has no digest or no signature';
  const actualDigest = tryComputeDigest(receipt);
  if (actualDigest === undefined) return 'it has no canonical JSON';
  if (actualDigest !== digest) return 'its members differ from the signed ones: the digest does not match';
  const publicKeyBytes = rawPublicKey(publicKey);
  if (signature.alg !== 'ed25519') return 'its signature algorithm is not ed25519';
  if (signature.key_id !== computeKeyId(publicKeyBytes))
    return `it is signed by ${signature.key_id}, not by ${computeKeyId(publicKeyBytes)}`;
  return verifySignature(Buffer.from(digest), publicKeyBytes, signature.value)
    ? undefined
    : 'its signature is invalid';
}

function findRowFault(
  row: ReceiptRow,
  seq: number,
  prevDigest: string,
  publicKey: KeyObject,
): string | undefined {
  if (row.seq !== seq) return `receipt ${seq} is missing: the next one there is ${row.seq}`;
  let receipt: Partial<WorkReceipt>;
  try {
    receipt = JSON.parse(row.receipt) as Partial<WorkReceipt>;
  } catch {
    return 'it is not JSON';
  }
  const fault = findReceiptFault(receipt, publicKey);
  if (fault !== undefined) return fault;
  const columns = ['endpoint_id', 'seq', 'id', 'kind', 'ended_at', 'prev_digest', 'digest'] as const;
  const mismatch = columns.find((column) => receipt[column] !== row[column]);
  if (mismatch !== undefined) return `its ${mismatch} differs from the column of that name`;
  return receipt.prev_digest === prevDigest
    ? undefined
    : 'its prev_digest does not match the previous receipt: a receipt was replaced or moved';
}

function tryComputeDigest(receipt: object): string | undefined {
  try {
    return computeReceiptDigest(receipt);
  } catch {
    return undefined;
  }
}
