import { generateSecret, verifySecret, hashSecret } from '../../signing/secret.ts';
import type { Store, Tx } from '../../store/index.ts';
import { AgentError } from '../errors.ts';
import type { StoreSessions } from '../services.ts';
import type { ControlAct } from '../shapes/control-act.ts';
import { isStoreSessionId, generateStoreSessionId } from './ids.ts';

interface RevokeCredential {
  /** Capability of the session itself. */
  readonly capability?: string;
  readonly operatorCredential?: string;
  /** Whether the request comes from this machine; only there the operator's credential is valid. Default true. */
  readonly isLocal?: boolean;
}

/** Store sessions in the database: credentials of tasks and runs that can be revoked while they run. */
export class StoredSessions implements StoreSessions {
  readonly #store: Store;
  readonly #operatorHash: string | undefined;

  /** @param options.operatorHash SHA-256 of the operator's credential in hex; undefined when there is none */
  constructor({ store, operatorHash }: { store: Store; operatorHash: string | undefined }) {
    this.#store = store;
    this.#operatorHash = operatorHash;
  }

  async open(tx: Tx, kind: 'task' | 'run', subject: string): Promise<{ id: string; capability: string }> {
    const seq = await this.#store.nextNumber(tx, 'session');
    const id = generateStoreSessionId(seq);
    const capability = generateSecret('session');
    await tx
      .insertInto('store_sessions')
      .values({
        id,
        seq,
        kind,
        subject,
        endpoint_id: this.#store.endpointId,
        capability_hash: hashSecret(capability),
        opened_at: this.#store.time(),
        closed_at: null,
        revoked_at: null,
      })
      .execute();
    return { id, capability };
  }

  async close(tx: Tx, id: string): Promise<void> {
    await tx
      .updateTable('store_sessions')
      .set({ closed_at: this.#store.time() })
      .where('id', '=', id)
      .where('closed_at', 'is', null)
      .execute();
  }

  /** True for unknown sessions, too. */
  async isRevoked(id: string): Promise<boolean> {
    const row = await this.#store.read((db) =>
      db.selectFrom('store_sessions').select('revoked_at').where('id', '=', id).executeTakeFirst(),
    );
    return row === undefined || row.revoked_at !== null;
  }

  /** Revoking twice is applied twice, but keeps the time of the first revocation. */
  async revoke(id: string, credential: RevokeCredential): Promise<ControlAct> {
    const result = await this.#store.transaction(async (tx) => {
      const row = isStoreSessionId(id)
        ? await tx
            .selectFrom('store_sessions')
            .select(['capability_hash', 'revoked_at'])
            .where('id', '=', id)
            .where('endpoint_id', '=', this.#store.endpointId)
            .executeTakeFirst()
        : undefined;
      const by = row && this.#findActor(id, row.capability_hash, credential);
      const isWrongOperator =
        credential.operatorCredential !== undefined && !this.#isOperator(credential.operatorCredential);
      const error =
        row === undefined && !isWrongOperator
          ? sessionNotFound()
          : by === undefined
            ? unauthorized()
            : undefined;
      const act = {
        verb: 'revoke',
        target: id.slice(0, 80),
        by: by ?? 'nobody',
        outcome: error ? 'refused' : 'applied',
        ...(error ? { reason: error.code } : {}),
      } as const;
      if (row?.revoked_at === null && !error)
        await tx
          .updateTable('store_sessions')
          .set({ revoked_at: this.#store.time() })
          .where('id', '=', id)
          .execute();
      await this.#store.appendAct(tx, act);
      return error ?? act;
    });
    // Thrown outside of the transaction, which would otherwise roll back the journal entry.
    if (result instanceof AgentError) throw result;
    return result;
  }

  #isOperator(credential: string): boolean {
    return this.#operatorHash !== undefined && verifySecret(this.#operatorHash, credential);
  }

  /** Who revokes. A wrong operator credential is refused even if the capability is right. */
  #findActor(
    id: string,
    capabilityHash: string,
    { capability, operatorCredential: operator, isLocal = true }: RevokeCredential,
  ): string | undefined {
    if (operator !== undefined) {
      if (!this.#isOperator(operator)) return undefined;
      if (isLocal) return 'operator';
    }
    return capability !== undefined && verifySecret(capabilityHash, capability) ? `session:${id}` : undefined;
  }
}

/** The same error for a missing or wrong credential and for another session's. */
const unauthorized = () =>
  new AgentError(
    'unauthorized',
    'credential_required',
    "Send the session's own capability in the header x-svc-session-secret, or, from the host's machine, the operator's credential in x-svc-operator.",
  );

const sessionNotFound = () =>
  new AgentError(
    'not_found',
    'unknown_session',
    'There is no such store session. Only store sessions (s...) can be revoked; tasks, runs and external sessions (t..., r..., x...) cannot.',
  );
