import { Access } from '../../../src/planes/access.ts';
import { ResponseStore } from '../../../src/planes/v1/stored/response-store.ts';
import { hashSecret } from '../../../src/signing/secret.ts';
import { Store } from '../../../src/store/index.ts';
import { freshSqlite } from '../databases.ts';
import { gatewayWorld } from '../gateway/world.ts';
import { serveScripted } from '../serve.ts';
import { answerTo, piecesOf } from './conversation.ts';

/** Where a client library is pointed at. */
export interface Place {
  readonly url: string;
  readonly key: string;
  /** Models for each wire; at the gateway, providers of the first two have other wires. */
  readonly chat: string;
  readonly responses: string;
  readonly messages: string;
  readonly embeddings: string;
  /** Answers that the model did not finish because the client disconnected. */
  abandoned(): number;
}

export type PlaceName = 'host' | 'gateway';

/** A host with a scripted engine that requires a bearer token and stores responses, and a gateway with a scripted provider of every wire. */
export async function openPlaces() {
  const key = 'right-key';
  const store = await Store.open({ url: freshSqlite(), endpointId: 'e0' });
  const host = await serveScripted(
    {
      contextLength: 20_000,
      answer: ({ prompt }) => piecesOf(answerTo(Buffer.from(prompt.filter((id) => id < 256)).toString())),
      // Only the story is as long.
      hold: (piece) => (piece > 100 ? new Promise((resolve) => setTimeout(resolve, 5)) : undefined),
    },
    'ready',
    undefined,
    [],
    {
      access: new Access({ bind: 'lan', bearerHash: hashSecret(key), operatorHash: undefined }),
      responses: new ResponseStore({ store, retentionDays: 1 }),
    },
  );
  // An answer whose reader has left is not read to its end for its token counts.
  const world = await gatewayWorld({ limits: { drainSecs: 0, drainIdleSecs: 0 } });
  world.provider.script(({ text }) => {
    const { text: said = '', calls = [] } = answerTo(text);
    const vectors = [
      [0.6, 0.8],
      [1, 0],
    ];
    return { say: { text: said, calls, piece: 5, vectors }, ...(said.length > 1000 ? { frameMs: 5 } : {}) };
  });
  const customer = await world.customer();
  const places: Readonly<Record<PlaceName, Place>> = {
    host: {
      url: host.url,
      key,
      chat: 'scripted',
      responses: 'scripted',
      messages: 'scripted',
      embeddings: 'scripted',
      abandoned: () => host.engine.aborted,
    },
    gateway: {
      url: world.url,
      key: customer.secret,
      chat: 'claude',
      responses: 'gemini',
      messages: 'claude',
      embeddings: 'chat',
      abandoned: () => world.provider.left,
    },
  };
  return {
    places,
    /** What the host and the gateway logged as faults. */
    faults: async () => [...host.faults, ...world.faults, ...(await world.witness.faults())],
    async close() {
      await host.close();
      await world.close();
      await store.close();
    },
  };
}
