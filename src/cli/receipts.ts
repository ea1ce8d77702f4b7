import { existsSync } from 'node:fs';
import { verifyReceipts } from '../agent/receipts/verify.ts';
import type { Command } from '../config/commands.ts';
import type { Settings } from '../config/toml.ts';
import { hostKey } from '../signing/host-key.ts';
import { Store } from '../store/index.ts';
import { databaseUrl, defaultDataDir, openDataDir } from './data-dir.ts';
import { jsonText } from './printable.ts';
import { StartError } from './start-error.ts';
import type { World } from './world.ts';

type ReceiptsCommand = Extract<Command, { verb: 'receipts' }>;

/** `receipts verify`: reads the chain of the data directory's host from its first receipt on. */
export async function verifyStoredReceipts(
  { json }: ReceiptsCommand,
  settings: Settings,
  world: World,
): Promise<void> {
  const dataDir = await openDataDir(settings.data_dir ?? defaultDataDir(world.env, world.home));
  const url = databaseUrl(settings.database, dataDir.path);
  const path = /^sqlite:(.+)$/s.exec(url)?.[1];
  // Opening it would make one, in which every chain is in order.
  if (path !== undefined && !existsSync(path))
    throw new StartError(
      `there is no database ${path}: no host has run with it. Name another with --data-dir DIR or --database URL.`,
    );
  const { publicKey, keyId } = await hostKey(dataDir.path);
  const store = await Store.open({ url, endpointId: dataDir.endpointId });
  try {
    const verdict = await verifyReceipts(store, publicKey);
    if (json) world.stdout.write(`${jsonText({ ...verdict, key_id: keyId })}\n`);
    const { ok, receipts, first_bad: bad, reason } = verdict;
    if (!ok)
      throw new StartError(
        `the chain of receipts is broken at receipt ${bad}: ${reason}. The ${receipts} before it are in order.`,
      );
    if (!json) world.stdout.write(`${receipts} receipts, all in order, signed by ${keyId}\n`);
  } finally {
    await store.close();
  }
}
