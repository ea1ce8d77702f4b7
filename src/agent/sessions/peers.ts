import { newSecret, secretFits, secretHash } from '../../signing/secret.ts';
import type { Store } from '../../store/index.ts';
import { AgentError } from '../errors.ts';

/** A peer as it may be shown. */
export interface Peer {
  readonly name: string;
  readonly minted_at: string;
  readonly revoked: boolean;
}

/** Tokens that other machines reach a host with which listens beyond loopback. */
export class Peers {
  readonly #store: Store;

  constructor({ store }: { store: Store }) {
    this.#store = store;
  }

  /** By name. */
  async list(): Promise<Peer[]> {
    const rows = await this.#store.read((db) =>
      db.selectFrom('peers').select(['name', 'minted_at', 'revoked_at']).orderBy('name').execute(),
    );
    return rows.map(({ name, minted_at, revoked_at }) => ({ name, minted_at, revoked: revoked_at !== null }));
  }

  /**
   * The token is in this answer and nowhere else. The name of a revoked peer may be used again.
   * @throws AgentError conflict
   */
  async mint(name: string, by: string): Promise<{ name: string; token: string; minted_at: string }> {
    const token = newSecret('peer');
    const minted_at = this.#store.time();
    await this.#store.transaction(async (tx) => {
      const row = { token_hash: secretHash(token), minted_at, revoked_at: null };
      const made = await tx
        .insertInto('peers')
        .values({ name, ...row })
        .onConflict((conflict) =>
          conflict.column('name').doUpdateSet(row).where('peers.revoked_at', 'is not', null),
        )
        .returning('name')
        .executeTakeFirst();
      if (!made)
        throw new AgentError(
          'conflict',
          'peer_exists',
          `There is a peer '${name}' already; revoke it first, or choose another name.`,
        );
      await this.#store.act(tx, { verb: 'peer.mint', target: name, by, outcome: 'applied' });
    });
    return { name, token, minted_at };
  }

  /** A second time it changes nothing. @throws AgentError not_found */
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
      await this.#store.act(tx, { verb: 'peer.revoke', target: name, by, outcome: 'applied' });
    });
  }

  /** The name of the peer whose token it is, unless it was revoked. */
  async find(token: string): Promise<string | undefined> {
    // Anything else is no token of a peer, and not worth asking the database.
    if (!/^lathe_peer_[\w-]{43}$/.test(token)) return undefined;
    const rows = await this.#store.read((db) =>
      db.selectFrom('peers').select(['name', 'token_hash']).where('revoked_at', 'is', null).execute(),
    );
    return rows.find(({ token_hash }) => secretFits(token_hash, token))?.name;
  }
}
