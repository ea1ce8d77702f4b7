import type { KeyObject } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { receiptCounterName } from '../agent/receipts/receipt-chain.ts';
import {
  findReceiptFault,
  type ReceiptRows,
  storedReceipts,
  verifyReceipts,
} from '../agent/receipts/verify-receipts.ts';
import type { Command } from '../config/commands.ts';
import type { Settings } from '../config/toml.ts';
import { decodeBase64, computeKeyId, toPublicKey, rawPublicKey } from '../signing/ed25519.ts';
import { loadHostKey } from '../signing/host-key.ts';
import { Store } from '../store/index.ts';
import { explainSqlite } from '../store/sqlite-errors.ts';
import { readOnlyUriOf } from '../store/sqlite-read-only.ts';
import { errorMessage } from '../util/error-message.ts';
import { databaseUrl, defaultDataDir, readDataDir } from './data-dir.ts';
import { formatJson, printable } from '../terminal/printable.ts';
import { StartError } from './start-error.ts';
import type { CliContext } from './cli-context.ts';

type ReceiptsCommand = Extract<Command, { verb: 'receipts' }>;

/** `receipts verify`: verifies the host's whole chain of receipts, or the one receipt in a file. */
export async function checkReceipts(
  { name: file, key, json }: ReceiptsCommand,
  settings: Settings,
  cli: CliContext,
): Promise<void> {
  const dataDir = settings.data_dir ?? defaultDataDir(cli.env, cli.home);
  const explicitKey = key === undefined ? undefined : readKey(key);
  const { verdict, summary } =
    file === undefined
      ? await verifyChain(dataDir, settings.database, explicitKey)
      : await verifyReceiptFile(file, explicitKey ?? (await readHostPublicKey(dataDir)));
  if (json) cli.stdout.write(`${formatJson(verdict)}\n`);
  if (!verdict.ok) throw new StartError(printable(summary));
  if (!json) cli.stdout.write(`${printable(summary)}\n`);
}

interface Verdict {
  readonly verdict: { readonly ok: boolean; readonly key_id: string; readonly [more: string]: unknown };
  /** The verdict as a sentence. */
  readonly summary: string;
}

async function verifyChain(
  dataDir: string,
  database: string | undefined,
  explicitKey: KeyObject | undefined,
): Promise<Verdict> {
  const url = databaseUrl(database, resolve(dataDir));
  const databasePath = /^sqlite:(.+)$/s.exec(url)?.[1];
  // Opening an absent database would create an empty one, whose chain is trivially valid.
  if (databasePath !== undefined && !existsSync(databasePath))
    throw new StartError(
      `there is no database ${databasePath}: no host has used it. Name another with --data-dir DIR or --database URL.`,
    );
  const { path, endpointId } = await readDataDir(dataDir);
  const publicKey = explicitKey ?? (await readHostPublicKey(path));
  const { rows, close } =
    databasePath === undefined
      ? await openStored(url, endpointId)
      : openReceiptFile(databasePath, endpointId);
  try {
    const verdict = await verifyReceipts(rows, publicKey);
    const { ok, receipts, first_bad: bad, reason } = verdict;
    const key_id = computeKeyId(rawPublicKey(publicKey));
    return {
      verdict: { ...verdict, key_id },
      summary: ok
        ? `${receipts} ${receipts === 1 ? 'receipt' : 'receipts'}, all valid, signed by ${key_id}`
        : `the chain of receipts is broken at receipt ${bad}: ${reason}. The ${receipts} receipts before it are valid.`,
    };
  } finally {
    await close();
  }
}

interface OpenReceipts {
  readonly rows: ReceiptRows;
  readonly close: () => Promise<void>;
}

async function openStored(url: string, endpointId: string): Promise<OpenReceipts> {
  const store = await Store.open({ url, endpointId, migrates: false });
  return { rows: storedReceipts(store), close: () => store.close() };
}

/** Opens an SQLite file without changing it or its other files. @throws StoreError */
function openReceiptFile(path: string, endpointId: string): OpenReceipts {
  let db: DatabaseSync;
  try {
    db = new DatabaseSync(readOnlyUriOf(path).uri, { readOnly: true, timeout: 1000 });
  } catch (error) {
    throw explainSqlite(error, path);
  }
  const query = (sql: string, ...values: (string | number)[]) => {
    try {
      return db.prepare(sql).all(...values);
    } catch (error) {
      throw explainSqlite(error, path);
    }
  };
  return {
    rows: {
      count() {
        const [row] = query('select value from counters where name = ?', receiptCounterName(endpointId));
        return Promise.resolve(Number(row?.['value'] ?? 0));
      },
      after: (seq, limit) =>
        Promise.resolve(
          query(
            'select * from receipts where endpoint_id = ? and seq > ? order by seq limit ?',
            endpointId,
            seq,
            limit,
          ) as unknown as Awaited<ReturnType<ReceiptRows['after']>>,
        ),
    },
    close: () => Promise.resolve(db.close()),
  };
}

async function verifyReceiptFile(file: string, publicKey: KeyObject): Promise<Verdict> {
  const receipt = await readReceipt(file);
  const reason = findReceiptFault(receipt, publicKey);
  const key_id = computeKeyId(rawPublicKey(publicKey));
  if (reason !== undefined)
    return {
      verdict: { ok: false, reason, key_id },
      summary: `the receipt in ${file} is not genuine: ${reason}.`,
    };
  const { id, kind, outcome, seq } = receipt as Readonly<Record<string, unknown>>;
  return {
    verdict: { ok: true, id, seq, key_id },
    summary: `receipt ${String(seq)} is genuine: ${String(kind)} ${String(id)}, ${String(outcome)}, signed by ${key_id}`,
  };
}

async function readReceipt(file: string): Promise<unknown> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (error) {
    throw new StartError(`cannot read the receipt ${file}: ${errorMessage(error)}.`);
  }
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new StartError(
      `${file} is not JSON; save the response of GET /agent/v1/sessions/ID/receipt unchanged.`,
    );
  }
}

/**
 * The public key of the data directory's host. An absent key is not created, because no receipt would be signed with
 * it.
 */
async function readHostPublicKey(dataDir: string): Promise<KeyObject> {
  const path = resolve(dataDir);
  if (existsSync(join(path, 'host.key'))) return (await loadHostKey(path)).publicKey;
  throw new StartError(
    `there is no host.key in ${path}. Name the host's data directory with --data-dir DIR, or its public key with --key KEY (receipt_key.public_key of GET /host/v1/info).`,
  );
}

function readKey(text: string): KeyObject {
  const raw = decodeBase64(text, 32);
  if (raw) return toPublicKey(raw);
  throw new StartError(
    `--key: expected the base64 of 32 bytes, as in receipt_key.public_key of GET /host/v1/info.`,
  );
}
