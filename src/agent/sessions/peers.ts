import { generateSecret, verifySecret, hashSecret } from '../../signing/secret.ts';
import type { Store } from '../../store/index.ts';
import { AgentError } from '../errors.ts';
import { type PeerScope, peerScopes } from '../shapes/peer-scope.ts';

/** A peer without its token. */
export interface Peer {
  readonly name: string;
  readonly minted_at: string;
  readonly revoked: boolean;
  /** Scopes of its token; null: all scopes. */
  readonly scope: readonly PeerScope[] | null;
  /** When its token expires; null: never. */
  readonly expires_at: string | null;
}

/** Limits of a peer's token. */
interface PeerTokenLimits {
  readonly scope?: readonly PeerScope[] | null | undefined;
  readonly expiresAt?: Date | null | undefined;
}

interface MintedPeer extends Omit<Peer, 'revoked'> {
  readonly token: string;
}

/** Ten years. */
const maxTokenLifetimeMs = 3650 * 86_400_000;

/** Tokens of other machines, for a host that listens beyond loopback. */
export class Peers {
  readonly #store: Store;

  constructor({ store }: { store: Store }) {
    this.#store = store;
  }

  /** Sorted by name. */
  async list(): Promise<Peer[]> {
    const rows = await this.#store.read((db) =>
      db
        .selectFrom('peers')
        .select(['name', 'minted_at', 'revoked_at', 'scope', 'expires_at'])
        .orderBy('name')
        .execute(),
    );
    return rows.map(({ name, minted_at, revoked_at, scope, expires_at }) => ({
      name,
      minted_at,
      revoked: revoked_at !== null,
      scope: parseScope(scope),
      expires_at,
    }));
  }

  /**
   * Creates a peer. The token is returned only here. The name of a revoked peer can be used again.
   * @throws AgentError invalid, conflict
   */
  async mint(name: string, by: string, { scope, expiresAt }: PeerTokenLimits = {}): Promise<MintedPeer> {
    const limits = {
      // In a fixed order, without duplicates.
      scope: scope ? peerScopes.filter((one) => scope.includes(one)) : null,
      expires_at: expiresAt ? this.#validateExpiry(expiresAt) : null,
    };
    const token = generateSecret('peer');
    const minted_at = this.#store.time();
    await this.#store.transaction(async (tx) => {
      const row = {
        token_hash: hashSecret(token),
        minted_at,
        revoked_at: null,
        ...limits,
        scope: limits.scope && JSON.stringify(limits.scope),
      };
      const inserted = await tx
        .insertInto('peers')
        .values({ name, ...row })
        .onConflict((conflict) =>
          conflict.column('name').doUpdateSet(row).where('peers.revoked_at', 'is not', null),
        )
        .returning('name')
        .executeTakeFirst();
      if (!inserted)
        throw new AgentError(
          'conflict',
          'peer_exists',
          `There is a peer '${name}' already; revoke it first, or choose another name.`,
        );
      await this.#store.appendAct(tx, { verb: 'peer.mint', target: name, by, outcome: 'applied' });
    });
    return { name, token, minted_at, ...limits };
  }

  #validateExpiry(expiresAt: Date): string {
    const ms = expiresAt.getTime() - this.#store.now().getTime();
    if (ms > 0 && ms <= maxTokenLifetimeMs) return expiresAt.toISOString();
    const message = `expected a time in the future, within ten years, got ${expiresAt.toISOString()}`;
    throw new AgentError('invalid', 'invalid_body', `expires_at: ${message}.`, {
      faults: [{ path: 'expires_at', message }],
    });
  }

  /** Revokes a peer. Idempotent. @throws AgentError not_found */
  async revoke(name: string, by: string): Promise<void> {
    await this.#store.transaction(async (tx) => {
      const row = await tx
        .selectFrom('peers')
        .select('revoked_at')
        .where('name', '=', name)
        .executeTakeFirst();
      if (!row) throw new AgentError('not_found', 'unknown_peer', `There is no peer '${name.slice(0, 80)}'.`);
      if (row.revoked_at !== null) return;
      await tx
        .updateTable('peers')
        .set({ revoked_at: this.#store.time() })
        .where('name', '=', name)
        .execute();
      await this.#store.appendAct(tx, { verb: 'peer.revoke', target: name, by, outcome: 'applied' });
    });
  }

  /**
   * The peer that holds the name with a valid token. The id is derived from the token: a peer that is minted again
   * under the same name is a different one.
   */
  async findCurrent(name: string): Promise<{ id: string; minted_at: string } | undefined> {
    const row = await this.#store.read((db) =>
      db
        .selectFrom('peers')
        .select(['token_hash', 'minted_at', 'expires_at'])
        .where('name', '=', name)
        .where('revoked_at', 'is', null)
        .executeTakeFirst(),
    );
    if (!row || (row.expires_at !== null && row.expires_at <= this.#store.time())) return undefined;
    return { id: `p${row.token_hash.slice(0, 16)}`, minted_at: row.minted_at };
  }

  /** The peer of a token; undefined for an unknown or revoked token. */
  async find(token: string): Promise<PeerOfToken | undefined> {
    // Anything else is not a peer's token; skips the database.
    if (!/^lathe_peer_[\w-]{43}$/.test(token)) return undefined;
    const rows = await this.#store.read((db) =>
      db
        .selectFrom('peers')
        .select(['name', 'token_hash', 'scope', 'expires_at'])
        .where('revoked_at', 'is', null)
        .execute(),
    );
    const row = rows.find(({ token_hash }) => verifySecret(token_hash, token));
    if (!row) return undefined;
    const { name, expires_at } = row;
    const hasExpired = expires_at !== null && expires_at <= this.#store.time();
    return { name, scope: parseScope(row.scope), ...(hasExpired ? { expired: expires_at } : {}) };
  }
}

/** Peer of a presented token. */
interface PeerOfToken extends Pick<Peer, 'name' | 'scope'> {
  /** When the token expired, if it has. */
  readonly expired?: string;
}

const parseScope = (scope: string | null): readonly PeerScope[] | null =>
  scope === null ? null : (JSON.parse(scope) as readonly PeerScope[]);
