import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { inspect } from 'node:util';
import { sql } from 'kysely';
import { expect } from 'vitest';
import { Credentials } from '../../../src/gateway/access/credentials.ts';
import type { MasterKeys } from '../../../src/gateway/access/envelope.ts';
import type { AccessTables } from '../../../src/gateway/access/tables.ts';
import type { StatusProbe } from '../../../src/gateway/access/credential-verification.ts';
import type { ByokProvider } from '../../../src/gateway/config/types.ts';
import type { WireError } from '../../../src/wires/core/error.ts';
import { GatewayStore } from '../../../src/gateway/store/index.ts';
import { ManualClock } from '../manual-clock.ts';

export const plantedKey = 'sk-proj-4fJ29aKQx0LmZ81TyBv7WnQpR3uXcD5e';

/** The wire form of an error. Neither it nor its cause contains any part of the planted key. */
export async function refusalOf(work: Promise<unknown>) {
  const error = await work.then(
    () => new Error('it was done'),
    (refused: unknown) => refused as Error,
  );
  expect(inspect(error, { depth: 10, showHidden: true })).not.toMatch(/4fJ29aKQ|XcD5e/);
  const { name, status, body } = error as WireError;
  if (name !== 'WireError') throw error;
  return { status, ...body } as {
    status: number;
    type: string;
    code: string;
    message: string;
    param: string;
    violations?: unknown;
  };
}

export const masterKey = (id: string): MasterKeys[number] => ({ id, key: randomBytes(32) });

const provider = (id: string, wire: ByokProvider['wire'], baseUrl: string): ByokProvider => ({
  id,
  wire,
  baseUrl,
  hostSuffixes: [],
  basePath: '',
});

export const byok: readonly ByokProvider[] = [
  provider('openai', 'openai-responses', 'https://api.openai.test/v1'),
  provider('anthropic', 'anthropic-messages', 'https://api.anthropic.test/v1'),
  provider('google', 'google', 'https://google.test/v1beta'),
  provider('hosts', 'lathe', 'http://10.0.0.1:8080/v1'),
  {
    id: 'azure',
    wire: 'openai-chat',
    baseUrl: undefined,
    hostSuffixes: ['.openai.azure.com', '.services.ai.azure.com'],
    basePath: '/openai/v1',
  },
];

/** Credentials on a database, with a provider that returns `answer`. */
export class AccessWorld {
  readonly clock = new ManualClock();
  readonly url: string;
  readonly store: GatewayStore;
  readonly probeCalls: Parameters<StatusProbe>[] = [];
  answer: number | Error = 200;

  private constructor(url: string, store: GatewayStore) {
    this.url = url;
    this.store = store;
  }

  static async open(url: string): Promise<AccessWorld> {
    return new AccessWorld(url, await GatewayStore.open({ url, replicaId: 'one' }));
  }

  credentials(masterKeys: MasterKeys, providers = byok): Credentials {
    return new Credentials({
      store: this.store,
      byok: providers,
      masterKeys,
      probe: (...call) => {
        this.probeCalls.push(call);
        return this.answer instanceof Error
          ? Promise.reject(this.answer)
          : Promise.resolve({ status: this.answer });
      },
      monotonicMs: this.clock.monotonic,
    });
  }

  rows(): Promise<AccessTables['gateway_credentials'][]> {
    return this.store.read((db) =>
      db.withTables<AccessTables>().selectFrom('gateway_credentials').selectAll().orderBy('id').execute(),
    );
  }

  /** Direct access to the database. */
  async change(id: string, values: Partial<AccessTables['gateway_credentials']>): Promise<void> {
    await this.store.transaction((tx) =>
      tx
        .withTables<AccessTables>()
        .updateTable('gateway_credentials')
        .set(values)
        .where('id', '=', id)
        .execute(),
    );
  }

  /** The whole content of the database as text: every row of every table, and its files, if any. */
  async dump(): Promise<string> {
    const texts: string[] = [];
    const path = /^sqlite:(.+)$/.exec(this.url)?.[1];
    await this.store.read(async (db) => {
      for (const { name } of await db.introspection.getTables()) {
        const { rows } = await sql`select * from ${sql.table(name)}`.execute(db);
        texts.push(
          name,
          ...rows.map((row) =>
            Object.values(row as object)
              .map(String)
              .join('\n'),
          ),
        );
      }
    });
    if (path !== undefined)
      for (const file of readdirSync(dirname(path)))
        if (file.startsWith(basename(path))) texts.push(readFileSync(join(dirname(path), file), 'latin1'));
    return texts.join('\n');
  }
}
