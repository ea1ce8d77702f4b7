import type { GatewayDb, GatewayStore } from '../store/index.ts';

/** The configurations that gateways of the database began to serve, in order. */
interface ConfigVersionsTable {
  version: bigint;
  /** `digestOf` the configuration. */
  digest: string;
  created_at: string;
}

export interface ConfigVersion {
  readonly version: number;
  readonly digest: string;
}

/** How often a version is counted up against other gateways before the database's error counts. */
const maxTries = 20;

/** Numbers configurations in the database, so that its gateways can say whether they serve the same one. */
export class ConfigVersions {
  readonly #store: GatewayStore;

  constructor(store: GatewayStore) {
    this.#store = store;
  }

  /** The newest version; undefined where there is none yet. */
  async latest(): Promise<ConfigVersion | undefined> {
    return await this.#store.read(newestOf);
  }

  /** Makes a configuration the newest version. @returns its number, the present one where it is the newest already */
  async claim(digest: string): Promise<number> {
    for (let tries = 1; ; tries++) {
      const claimed = await this.#store.transaction(async (tx) => {
        const newest = await newestOf(tx);
        if (newest?.digest === digest) return newest.version;
        const version = BigInt(newest?.version ?? 0) + 1n;
        const { numInsertedOrUpdatedRows: rows } = await tx
          .withTables<{ gateway_config_versions: ConfigVersionsTable }>()
          .insertInto('gateway_config_versions')
          .values({ version, digest, created_at: this.#store.time() })
          .onConflict((conflict) => conflict.column('version').doNothing())
          .executeTakeFirstOrThrow();
        return rows === 0n ? undefined : Number(version);
      });
      if (claimed !== undefined) return claimed;
      if (tries === maxTries)
        throw new Error('other gateways keep changing the version of the configuration');
    }
  }
}

async function newestOf(db: GatewayDb): Promise<ConfigVersion | undefined> {
  const row = await db
    .withTables<{ gateway_config_versions: ConfigVersionsTable }>()
    .selectFrom('gateway_config_versions')
    .select(['version', 'digest'])
    .orderBy('version', 'desc')
    .limit(1)
    .executeTakeFirst();
  return row && { version: Number(row.version), digest: row.digest };
}
