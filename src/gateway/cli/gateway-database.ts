import { randomUUID } from 'node:crypto';
import { hostname, userInfo } from 'node:os';
import { Credentials } from '../access/credentials.ts';
import { clearCache } from '../cache/clear-cache.ts';
import { ChangeLog } from '../ledger/change-log.ts';
import { openLedger } from '../ledger/index.ts';
import { GatewayStore } from '../store/index.ts';
import type { GatewayDatabase, GatewayDatabaseOptions } from './types.ts';

/** The user who runs the command, for the log of changes. A user without an entry in the system's list has a number. */
function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return String(process.getuid?.() ?? 'unknown');
  }
}

/** Opens a gateway's database for commands. No request is sent to a provider. */
export async function openGatewayDatabase({
  database,
  masterKeys,
  onNotice,
}: GatewayDatabaseOptions): Promise<GatewayDatabase> {
  const store = await GatewayStore.open({ url: database, replicaId: `command-${randomUUID()}`, onNotice });
  try {
    const actor = `${userName()}@${hostname()}`;
    const ledger = await openLedger({ store, onFault: onNotice, actor });
    const probe = () => Promise.reject(new Error('commands cannot verify credentials'));
    const credentials = new Credentials({ store, byok: [], masterKeys, probe });
    return {
      ledger,
      credentials,
      clearCache: (accountId) => clearCache({ store, changeLog: new ChangeLog(store, actor) }, accountId),
      async close() {
        await ledger.close();
        await store.close();
      },
    };
  } catch (error) {
    await store.close();
    throw error;
  }
}
