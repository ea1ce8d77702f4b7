import { z } from 'zod';
import { itemName } from '../../agent/shapes/common.ts';
import type { Peers } from '../../agent/sessions/peers.ts';
import { refusing } from '../agent/plane.ts';
import { hostError } from '../error-schema.ts';
import { hostEnvelope } from '../problem.ts';
import { defineRoute, type Plane, type Route } from '../route.ts';
import { metricsRoute, type MetricsOptions } from './metrics.ts';

const peerRoster = z
  .object({
    contract: z.literal(1),
    peers: z.array(z.object({ name: z.string(), minted_at: z.iso.datetime(), revoked: z.boolean() })),
  })
  .meta({ id: 'PeerRoster' });
const newPeer = z.object({ name: itemName }, { error: 'expected an object' }).meta({ id: 'NewPeer' });
const mintedPeer = z
  .object({
    name: z.string(),
    token: z.string().describe('Shown this once; the peer sends it as its bearer token.'),
    minted_at: z.iso.datetime(),
  })
  .meta({ id: 'MintedPeer' });

/** What only the control socket has, which listens on loopback alone. */
export function controlPlane(peers: Peers, metrics: MetricsOptions): Plane {
  return {
    name: 'control',
    summary: 'The control socket: peers, for the operator, and metrics.',
    prefixes: ['/metrics'],
    envelope: hostEnvelope,
    errorSchema: hostError,
    routes: refusing([...peerRoutes(peers), metricsRoute(metrics)]),
  };
}

function peerRoutes(peers: Peers): Route[] {
  const list = defineRoute({
    method: 'GET',
    path: '/host/v1/peers',
    operationId: 'listPeers',
    summary: 'Whom tokens were minted for',
    gate: 'operator',
    answers: {
      200: { description: 'The roster, without the tokens.', content: { 'application/json': peerRoster } },
    },
    async handle() {
      return Response.json({ contract: 1, peers: await peers.list() });
    },
  });
  const mint = defineRoute({
    method: 'POST',
    path: '/host/v1/peers',
    operationId: 'mintPeer',
    summary: 'Mint the token of a peer',
    gate: 'operator',
    body: newPeer,
    answers: {
      201: { description: 'The token, this once.', content: { 'application/json': mintedPeer } },
      409: { description: 'There is such a peer already.', content: { 'application/json': hostError } },
    },
    async handle({ body, by }) {
      const minted = await peers.mint(body.name, by);
      return Response.json(minted, { status: 201, headers: { 'cache-control': 'no-store' } });
    },
  });
  const revoke = defineRoute({
    method: 'DELETE',
    path: '/host/v1/peers/{name}',
    operationId: 'revokePeer',
    summary: 'Revoke the token of a peer',
    params: { name: 'Of the peer.' },
    gate: 'operator',
    answers: {
      200: { description: 'Its token is refused from now on.', content: { 'application/json': revokedPeer } },
      404: { description: 'There is no such peer.', content: { 'application/json': hostError } },
    },
    async handle({ params: { name = '' }, by }) {
      await peers.revoke(name, by);
      return Response.json({ name, revoked: true });
    },
  });
  return [list, mint, revoke];
}

const revokedPeer = z.object({ name: z.string(), revoked: z.literal(true) }).meta({ id: 'RevokedPeer' });
