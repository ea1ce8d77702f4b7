import type { LRUCache } from 'lru-cache';
import { didYouMean } from '../../words/nearest.ts';
import { endpointPattern, endpointRule } from '../catalog/model-names.ts';
import type { ByokProvider } from '../config/types.ts';
import { WireError, invalidRequest } from '../../wires/core/error.ts';
import type { GatewayStore } from '../store/index.ts';
import { parseCredentialBody, parseRegisteredEndpoint } from './credential-body.ts';
import { EnvelopeError, type MasterKeys } from './envelope.ts';
import { createExpiringCache } from './expiring-cache.ts';
import { createRecord, decryptRecord } from './credential-records.ts';
import { type RotationResult, rotateMasterKey } from './master-key-rotation.ts';
import type { AccessTables, CredentialRow } from './tables.ts';
import type { CredentialStore, ByokCredential } from './types.ts';
import { type StatusProbe, verifyCredential } from './credential-verification.ts';

export interface CredentialsOptions {
  readonly store: GatewayStore;
  /** The configured providers; read at each use, because a reload may change them. */
  readonly byok: readonly ByokProvider[];
  readonly masterKeys: MasterKeys;
  readonly probe: StatusProbe;
  /** Called with each decrypted credential, so that it can be redacted from recordings. */
  readonly onSecret?: ((secret: string) => void) | undefined;
  readonly monotonicMs?: () => number;
}

/** Cache time of decrypted credentials, in ms. For this long, other gateways may still use a removed credential. */
const cacheTtlMs = 5000;
const maxRemembered = 10_000;

/** Provider credentials of accounts, encrypted in the database. */
export class Credentials implements CredentialStore {
  readonly #store: GatewayStore;
  readonly #byok: readonly ByokProvider[];
  readonly #masterKeys: MasterKeys;
  readonly #probe: StatusProbe;
  readonly #onSecret: (secret: string) => void;
  /** Cached lookups by account and provider, including those that found nothing. */
  readonly #cache: LRUCache<string, { readonly found: ByokCredential | undefined }>;
  /** Counts local changes, so that a value read before a change is not cached after it. */
  #changeCount = 0;

  constructor(options: CredentialsOptions) {
    const { store, byok, masterKeys, probe, monotonicMs = () => performance.now() } = options;
    this.#store = store;
    this.#byok = byok;
    this.#masterKeys = masterKeys;
    this.#probe = probe;
    this.#onSecret = options.onSecret ?? (() => undefined);
    this.#cache = createExpiringCache(maxRemembered, cacheTtlMs, monotonicMs);
  }

  async list(accountId: string): ReturnType<CredentialStore['list']> {
    const rows = await this.#store.read((db) =>
      db
        .withTables<AccessTables>()
        .selectFrom('gateway_credentials')
        .select(['provider', 'status', 'last4', 'base_url', 'created_at'])
        .where('account_id', '=', accountId)
        .orderBy('provider')
        .execute(),
    );
    return rows.map(({ base_url, created_at, ...row }) => ({
      ...row,
      ...(base_url === null ? {} : { base_url }),
      created_at,
    }));
  }

  async put(accountId: string, provider: string, body: unknown): Promise<void> {
    const known = this.#byok.find(({ id }) => id === provider);
    if (known === undefined) throw this.#unknownProviderError(provider);
    const credential = parseCredentialBody(body, known);
    this.#requireMasterKey();
    await verifyCredential(this.#probe, known, credential);
    await this.#save(accountId, provider, { mode: 'verified', ...credential });
  }

  /**
   * Registers an OpenAI-compatible endpoint with any base URL. Only the operator can, on the command line.
   * @param name `kind:slug`
   * @throws WireError 400
   */
  async register(
    accountId: string,
    name: string,
    credential: { readonly apiKey?: string; readonly baseUrl: string },
  ): Promise<void> {
    if (!endpointPattern.test(name))
      throw invalidRequest(`The endpoint's name is invalid: ${endpointRule}.`, { param: 'provider' });
    const endpoint = parseRegisteredEndpoint(credential);
    if (endpoint.apiKey !== '') this.#requireMasterKey();
    await this.#save(accountId, name, { mode: 'registered', ...endpoint });
  }

  async remove(accountId: string, provider: string): Promise<boolean> {
    const { numDeletedRows } = await this.#store.transaction((tx) =>
      tx
        .withTables<AccessTables>()
        .deleteFrom('gateway_credentials')
        .where('account_id', '=', accountId)
        .where('provider', '=', provider)
        .executeTakeFirstOrThrow(),
    );
    this.#evict(accountId, provider);
    return numDeletedRows > 0n;
  }

  /** Finds rejected credentials too: the caller must get that error, and not be charged for the operator's credential. */
  async find(accountId: string, provider: string): Promise<ByokCredential | undefined> {
    const cacheKey = cacheKeyOf(accountId, provider);
    const cached = this.#cache.get(cacheKey);
    if (cached !== undefined) return cached.found;
    const changeCount = this.#changeCount;
    const row = await this.#findRow(accountId, provider);
    const found = row && { provider, apiKey: this.#decrypt(row), baseUrl: row.base_url ?? undefined };
    if (changeCount === this.#changeCount) this.#cache.set(cacheKey, { found });
    return found;
  }

  async markRejected(accountId: string, provider: string, apiKey?: string): Promise<void> {
    const row = await this.#findRow(accountId, provider);
    if (row?.status !== 'active' || (apiKey !== undefined && this.#decrypt(row) !== apiKey)) return;
    await this.#store.transaction((tx) =>
      tx
        .withTables<AccessTables>()
        .updateTable('gateway_credentials')
        .set({ status: 'rejected' })
        .where('id', '=', row.id)
        .execute(),
    );
  }

  /** Calls `onSecret` with every credential that this gateway can decrypt. */
  async reportSecrets(): Promise<void> {
    const rows = await this.#store.read((db) =>
      db.withTables<AccessTables>().selectFrom('gateway_credentials').selectAll().execute(),
    );
    for (const row of rows) {
      try {
        this.#decrypt(row);
      } catch (error) {
        // A credential whose master key is missing cannot leak; a request that uses it gets an error.
        if (!(error instanceof WireError)) throw error;
      }
    }
  }

  /** Re-encrypts all records with the first master key. */
  async rotate(): Promise<RotationResult> {
    this.#requireMasterKey();
    return await rotateMasterKey(this.#store, this.#masterKeys);
  }

  async #save(
    accountId: string,
    provider: string,
    { apiKey, mode, baseUrl }: Pick<CredentialRow, 'mode'> & { apiKey: string; baseUrl: string | undefined },
  ): Promise<void> {
    this.#onSecret(apiKey);
    const record = createRecord(this.#masterKeys, apiKey, {
      account_id: accountId,
      provider,
      mode,
      base_url: baseUrl ?? null,
      created_at: this.#store.time(),
    });
    await this.#store.transaction((tx) =>
      tx
        .withTables<AccessTables>()
        .insertInto('gateway_credentials')
        .values(record)
        .onConflict((conflict) => conflict.columns(['account_id', 'provider']).doUpdateSet(record))
        .execute(),
    );
    this.#evict(accountId, provider);
  }

  #findRow(accountId: string, provider: string): Promise<CredentialRow | undefined> {
    return this.#store.read((db) =>
      db
        .withTables<AccessTables>()
        .selectFrom('gateway_credentials')
        .selectAll()
        .where('account_id', '=', accountId)
        .where('provider', '=', provider)
        .executeTakeFirst(),
    );
  }

  #decrypt(row: CredentialRow): string {
    try {
      const secret = decryptRecord(this.#masterKeys, row);
      this.#onSecret(secret);
      return secret;
    } catch (error) {
      if (!(error instanceof EnvelopeError)) throw error;
      const advice = endpointPattern.test(row.provider)
        ? 'ask for the endpoint to be added again'
        : `store it again with PUT /v1/keys/${row.provider}`;
      throw new WireError(
        500,
        'server_error',
        `Your credential for ${row.provider} cannot be decrypted: this gateway lacks the master key that encrypted it, or the record was changed. Tell its operator, or ${advice}.`,
        {
          code: 'credential_unreadable',
          cause: new EnvelopeError(`the record ${row.id} of ${row.account_id}: ${error.message}`),
        },
      );
    }
  }

  #evict(accountId: string, provider: string): void {
    this.#changeCount++;
    this.#cache.delete(cacheKeyOf(accountId, provider));
  }

  #requireMasterKey(): void {
    if (this.#masterKeys.length > 0) return;
    throw new WireError(
      503,
      'server_error',
      'This gateway has no master key to encrypt credentials with: its operator has to set master_key_env or master_key_file in [secrets] of gateway.toml.',
      { code: 'master_key_missing' },
    );
  }

  #unknownProviderError(provider: string): WireError {
    const known = this.#byok.map(({ id }) => id).sort();
    const message =
      known.length === 0
        ? 'This gateway does not accept credentials of your own: its configuration has no [byok.<provider>].'
        : `There is no provider of that name${didYouMean(provider, known, (name) => `'${name}'`)}. Credentials can be stored for ${known.join(', ')}.`;
    return new WireError(404, 'invalid_request_error', message, {
      code: 'provider_not_found',
      param: 'provider',
    });
  }
}

const cacheKeyOf = (accountId: string, provider: string): string => `${accountId} ${provider}`;
