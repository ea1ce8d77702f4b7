import { generateKeyPairSync } from 'node:crypto';
import { ReceiptChain } from '../../src/agent/receipts/receipt-chain.ts';
import type { LiveSessionSource } from '../../src/agent/services.ts';
import type { CancelOptions } from '../../src/agent/sessions/cancel-session.ts';
import {
  ExternalSessions,
  type ExternalSessionsOptions,
} from '../../src/agent/sessions/external-sessions.ts';
import { SessionFeed, type SessionFeedOptions } from '../../src/agent/sessions/session-feed.ts';
import { Peers } from '../../src/agent/sessions/peers.ts';
import { StoredSessions } from '../../src/agent/sessions/store-sessions.ts';
import { AgentError } from '../../src/agent/errors.ts';
import { StoredSignals } from '../../src/agent/signals.ts';
import { externalSessionsRoutes } from '../../src/planes/agent/external-sessions-routes.ts';
import { sessionsRoutes } from '../../src/planes/agent/sessions-routes.ts';
import { computeKeyId, rawPublicKey } from '../../src/signing/ed25519.ts';
import { hashSecret } from '../../src/signing/secret.ts';
import { Store } from '../../src/store/index.ts';
import { ManualClock } from './manual-clock.ts';

export const operatorToken = 'lathe_operator_of-the-tests-only';

const { privateKey, publicKey } = generateKeyPairSync('ed25519');
const key = { privateKey, publicKey, keyId: computeKeyId(rawPublicKey(publicKey)) };

const nothing: LiveSessionSource = { live: () => Promise.resolve([]) };
const noRuns: CancelOptions['runs'] = {
  cancel: () => Promise.reject(new AgentError('not_found', 'unknown_session', 'There is no such run.')),
};

interface Given
  extends Partial<Pick<ExternalSessionsOptions, 'maxSessions' | 'heartbeatSecs'>>,
    Partial<Pick<SessionFeedOptions, 'tasks' | 'cancelledState'>> {
  readonly url: string;
  readonly endpointId?: string;
  readonly clock?: ManualClock;
  readonly runs?: LiveSessionSource & CancelOptions['runs'];
}

/** The sessions of a host on a database, with a manual clock. */
export async function openSessionPlane({
  url,
  endpointId = 'e0',
  clock = new ManualClock(),
  maxSessions = 64,
  heartbeatSecs = 15,
  tasks = nothing,
  runs = { ...nothing, ...noRuns },
  cancelledState = true,
}: Given) {
  const store = await Store.open({ url, endpointId, now: clock.now });
  const faults: unknown[] = [];
  const receipts = new ReceiptChain({ store, key });
  const sessions = new StoredSessions({ store, operatorHash: hashSecret(operatorToken) });
  const external = new ExternalSessions({
    store,
    receipts,
    clock,
    maxSessions: maxSessions,
    heartbeatSecs,
    signals: new StoredSignals(store),
    onFault: (error) => faults.push(error),
  });
  /** Sessions whose tasks were to stop. */
  const stopped: string[] = [];
  const stopRevoked = (id: string) => {
    stopped.push(id);
    return Promise.resolve();
  };
  const feed = new SessionFeed({ store, tasks, runs, external, cancelledState, startedAt: clock.now() });
  return {
    store,
    receipts,
    sessions,
    external,
    feed,
    clock,
    faults,
    stopped,
    key,
    peers: new Peers({ store }),
    routes: [
      ...sessionsRoutes({ feed, sessions, receipts, tasks: { ...tasks, stopRevoked }, external, runs }),
      ...externalSessionsRoutes(external),
    ],
    acts: () => store.read((db) => db.selectFrom('acts').selectAll().orderBy('seq').execute()),
    async close() {
      await external.stop();
      await store.close();
    },
  };
}

/** Rows as a task or a run leaves them behind. */
export async function journal(store: Store, many: readonly { id: string; state: string; at: string }[]) {
  await store.transaction(async (tx) => {
    for (const { id, state, at } of many) {
      const shared = { id, endpoint_id: store.endpointId, started_at: at, ended_at: at };
      if (id.startsWith('t'))
        await tx
          .insertInto('tasks')
          .values({
            ...shared,
            n: Number(id.slice(1)),
            agent: 'default',
            title: `task ${id}`,
            request: '{}',
            cwd: '/work',
            engine: 'resident',
            model: 'tiny',
            state: state as 'completed',
            outcome: 'answer',
            last_event: 'answer',
            result: JSON.stringify({ text: 'x'.repeat(2000) }),
            turns: 1,
            prompt_tokens: 10,
            completion_tokens: 5,
            idempotency_key: null,
            request_digest: null,
            session_id: null,
          })
          .execute();
      else
        await tx
          .insertInto('runs')
          .values({
            ...shared,
            workflow: 'w',
            source: '# source',
            digest: 'sha256:0',
            state: state as 'completed',
            outcome: state,
            waiting_on: null,
            suspend_kind: null,
            wrapper_cycle: null,
            gate: null,
            resumed: 0,
            requested: null,
            input: null,
            inputs: '{}',
            retried_from: null,
            last_event: null,
            result: null,
            engine: null,
            model: null,
            prompt_tokens: null,
            completion_tokens: null,
            session_id: null,
          })
          .execute();
    }
  });
}
