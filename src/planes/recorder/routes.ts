import { racks } from '../../watch/index.ts';
import type { RecorderService } from '../../recorder/services.ts';
import { wholeQuery } from '../agent/whole-query.ts';
import { defineRoute, type Plane } from '../../http/route.ts';
import { answer, json, recorderRefusal, recorderRefusalEnvelope, refusal } from './envelope.ts';
import { grantsAnswer, reviewAnswer } from './grant-schema.ts';
import { ingestAnswer, ingestLimits, ingestRequest } from './ingest-schema.ts';
import { ownerOnly } from './owner-only.ts';
import { racksRoutes } from './racks-routes.ts';
import { refusing } from './refusal.ts';

const tokenHeader = 'x-svc-write-token';
const rackQuery = { rack: `Only this rack: ${racks.join(', ')}.` };
const unknownRack = refusal('No rack has this id.');
const notOfPeers = refusal("Not available with a peer's token.");
const listed = { least: 1, most: 1000, otherwise: 100 };
const known = { least: 0, most: 999_999_999, otherwise: 0 };

/**
 * The recorder plane: what conversation content may be stored, from the planes and from other senders. Stored content
 * is read through the observe plane.
 */
export function recorderPlane(recorder: RecorderService): Plane {
  const grants = defineRoute({
    method: 'GET',
    path: '/recorder/v1/grants',
    operationId: 'listGrants',
    summary: 'List grants and write tokens, newest first',
    description:
      'Grants and write tokens are created on the command line: `node dist/host.js recorder grant`.',
    query: rackQuery,
    before: ownerOnly,
    answers: {
      200: json('Grants and tokens, including expired ones.', grantsAnswer),
      403: notOfPeers,
      404: unknownRack,
    },
    handle: async ({ query }) => answer('grant', await recorder.grants(query.get('rack') ?? undefined)),
  });

  const review = defineRoute({
    method: 'GET',
    path: '/recorder/v1/review',
    operationId: 'reviewRecorder',
    summary: 'List every access and every change, oldest first',
    query: {
      ...rackQuery,
      after: 'The `seq` of the last known entry.',
      limit: 'Maximum number of entries: 1 to 1000, default 100.',
    },
    before: ownerOnly,
    answers: {
      200: json('The entries.', reviewAnswer),
      400: refusal('A parameter is out of range or not a number.'),
      403: notOfPeers,
      404: unknownRack,
    },
    async handle({ query }) {
      const after = wholeQuery(query, 'after', known);
      const limit = wholeQuery(query, 'limit', listed);
      return answer('review', await recorder.review({ rack: query.get('rack') ?? undefined, after, limit }));
    },
  });

  const ingest = defineRoute({
    method: 'POST',
    path: '/recorder/v1/ingest',
    operationId: 'ingestEvents',
    summary: 'Add events to the rack of a write token',
    description:
      'Events are stored durably before the response is sent. Events with known ids are not stored again.',
    headers: { [tokenHeader]: 'Write token of the rack.' },
    body: ingestRequest,
    jsonLimitBytes: ingestLimits.body,
    answers: {
      200: json('Counts of accepted and duplicate events.', ingestAnswer),
      401: refusal('The bearer token or the write token is missing, wrong or expired.'),
      403: refusal('The write token belongs to another caller.'),
      409: refusal('The rack is disarmed, or redacting these events takes too long.'),
      429: refusal('Too many events arrive; `Retry-After` says when to retry.'),
      503: refusal('The events cannot be stored now.'),
    },
    async before({ headers, by }) {
      // Refuses and records the attempt in the review; the body is not needed for that.
      if (headers.get(tokenHeader) === null) await recorder.ingest(null, [], by);
    },
    handle: async ({ body, headers, by }) =>
      answer('ingest', await recorder.ingest(headers.get(tokenHeader), body.events, by)),
  });

  return {
    name: 'recorder',
    summary:
      'Recorder: what conversation content may be stored. Racks, grants and a review log. Requires the bearer token, also on loopback.',
    prefixes: ['/recorder'],
    envelope: recorderRefusalEnvelope,
    errorSchema: recorderRefusal,
    gate: 'bearer',
    routes: refusing([...racksRoutes(recorder), grants, review, ingest]),
  };
}
