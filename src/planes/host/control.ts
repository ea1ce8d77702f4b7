import { z } from 'zod';
import { resourceName } from '../../agent/shapes/common.ts';
import { peerScope } from '../../agent/shapes/peer-scope.ts';
import type { Peers } from '../../agent/sessions/peers.ts';
import type { RecorderService } from '../../recorder/services.ts';
import { withRecorderHttpErrors } from '../recorder/http-errors.ts';
import { strictObject } from '../../http/schema/strict.ts';
import { withHttpErrors } from '../agent/plane.ts';
import { hostError } from '../error-schema.ts';
import { hostEnvelope } from '../../http/error.ts';
import { defineRoute, type Plane, type Route } from '../../http/route.ts';
import { metricsRoute, type MetricsOptions } from './metrics.ts';

const scopeSchema = z.array(peerScope).nullable().describe('Scopes of the token; null: unrestricted.');
const expirySchema = z.iso
  .datetime()
  .nullable()
  .describe('When the token expires; null: never, unless it is revoked.');
const peerRoster = z
  .object({
    contract: z.literal(1),
    peers: z.array(
      z.object({
        name: z.string(),
        minted_at: z.iso.datetime(),
        revoked: z.boolean(),
        scope: scopeSchema,
        expires_at: expirySchema,
      }),
    ),
  })
  .meta({ id: 'PeerRoster' });
/** Strict, so that a misspelled limit does not mint an unlimited token. */
const newPeer = strictObject({
  name: resourceName,
  scope: z
    .array(peerScope, { error: 'expected a list of scopes' })
    .min(1, 'expected at least one scope; leave it out for a token that is not limited')
    .nullish()
    .describe(
      'Scopes of the token: `read` state, `infer` with the models, work as an `agent` (tasks, runs, sessions), `approve` changes and definitions. Absent: unrestricted.',
    ),
  expires_at: z.iso
    .datetime({ offset: true, error: 'expected a time of RFC 3339, as 2030-01-31T12:00:00Z' })
    .nullish()
    .describe('When the token expires, within ten years. Absent: never, unless it is revoked.'),
}).meta({ id: 'NewPeer' });
const mintedPeer = z
  .object({
    name: z.string(),
    token: z.string().describe('Shown only once; the peer sends it as its bearer token.'),
    minted_at: z.iso.datetime(),
    scope: scopeSchema,
    expires_at: expirySchema,
  })
  .meta({ id: 'MintedPeer' });

/** The plane of the control socket, which listens on loopback only. */
export function createControlPlane(peerOptions: PeersOptions, metrics: MetricsOptions): Plane {
  return {
    name: 'control',
    summary: 'The control socket: peers, for the operator, and metrics.',
    prefixes: ['/metrics'],
    envelope: hostEnvelope,
    errorSchema: hostError,
    routes: withHttpErrors([...peerRoutes(peerOptions), metricsRoute(metrics)]),
  };
}

interface PeersOptions {
  readonly peers: Peers;
  /** The recorder's grants to a peer are revoked with the peer. */
  readonly recorder: Pick<RecorderService, 'revokeGrantsTo'> | undefined;
}

function peerRoutes({ peers, recorder }: PeersOptions): Route[] {
  const listPeers = defineRoute({
    method: 'GET',
    path: '/host/v1/peers',
    operationId: 'listPeers',
    summary: 'List the peers that tokens were minted for',
    gate: 'operator',
    responses: {
      200: { description: 'The roster, without the tokens.', content: { 'application/json': peerRoster } },
    },
    async handle() {
      return Response.json({ contract: 1, peers: await peers.list() });
    },
  });
  const mintPeer = defineRoute({
    method: 'POST',
    path: '/host/v1/peers',
    operationId: 'mintPeer',
    summary: 'Mint the token of a peer',
    gate: 'operator',
    body: newPeer,
    responses: {
      201: { description: 'The token, shown only once.', content: { 'application/json': mintedPeer } },
      409: { description: 'A peer of this name exists.', content: { 'application/json': hostError } },
    },
    async handle({ body, by }) {
      const { name, scope, expires_at } = body;
      const minted = await peers.mint(name, by, {
        scope,
        expiresAt: typeof expires_at === 'string' ? new Date(expires_at) : null,
      });
      return Response.json(minted, { status: 201, headers: { 'cache-control': 'no-store' } });
    },
  });
  const revokePeer = defineRoute({
    method: 'DELETE',
    path: '/host/v1/peers/{name}',
    operationId: 'revokePeer',
    summary: "Revoke the token of a peer and the recorder's grants to it",
    params: { name: 'Name of the peer.' },
    gate: 'operator',
    responses: {
      200: { description: 'The token was revoked.', content: { 'application/json': revokedPeer } },
      404: { description: 'No peer has this name.', content: { 'application/json': hostError } },
    },
    async handle({ params: { name = '' }, by }) {
      await peers.revoke(name, by);
      // The grants are already invalid, because they belong to the peer and not to its name; revoking them makes this
      // visible.
      await withRecorderHttpErrors(async () => recorder?.revokeGrantsTo(`peer:${name}`, by));
      return Response.json({ name, revoked: true });
    },
  });
  return [listPeers, mintPeer, revokePeer];
}

const revokedPeer = z.object({ name: z.string(), revoked: z.literal(true) }).meta({ id: 'RevokedPeer' });
