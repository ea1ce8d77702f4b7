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
const rackQuery = { rack: `Only of this one: ${racks.join(', ')}.` };
const unknownRack = refusal('There is no such rack.');
const notOfPeers = refusal("A peer's token does not do here.");
const listed = { least: 1, most: 1000, otherwise: 100 };
const known = { least: 0, most: 999_999_999, otherwise: 0 };

/** What may be kept of what the planes say, and what others send. What was kept is read at the observe plane. */
export function recorderPlane(recorder: RecorderService): Plane {
  const grants = defineRoute({
    method: 'GET',
    path: '/recorder/v1/grants',
    operationId: 'listGrants',
    summary: 'Who may read and write, newest first',
    description: 'Grants and write tokens are made on the command line: `node dist/host.js recorder grant`.',
    query: rackQuery,
    before: ownerOnly,
    answers: { 200: json('Also those that are over.', grantsAnswer), 403: notOfPeers, 404: unknownRack },
    handle: async ({ query }) => answer('grant', await recorder.grants(query.get('rack') ?? undefined)),
  });

  const review = defineRoute({
    method: 'GET',
    path: '/recorder/v1/review',
    operationId: 'reviewRecorder',
    summary: 'Every access and every change of what is kept, oldest first',
    query: {
      ...rackQuery,
      after: 'The `seq` of the last entry that is known.',
      limit: 'At most so many: 1 to 1000, default 100.',
    },
    before: ownerOnly,
    answers: {
      200: json('The entries.', reviewAnswer),
      400: refusal('A parameter is no such number.'),
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
      'They are on the disk when the answer comes. Sending the same events again adds none: their ids count.',
    headers: { [tokenHeader]: 'Names the rack, and may write to it.' },
    body: ingestRequest,
    jsonLimitBytes: ingestLimits.body,
    answers: {
      200: json('How many were new.', ingestAnswer),
      401: refusal('The bearer or the write token is missing, wrong or over.'),
      403: refusal("The write token is another's."),
      409: refusal('The rack is disarmed, or its patterns take too long for these events.'),
      429: refusal('More comes than can be stored; `Retry-After` tells when to send it again.'),
      503: refusal('It cannot be stored now.'),
    },
    async before({ headers, by }) {
      // Refuses, and tells the review: nothing of the body is needed for it.
      if (headers.get(tokenHeader) === null) await recorder.ingest(null, [], by);
    },
    handle: async ({ body, headers, by }) =>
      answer('ingest', await recorder.ingest(headers.get(tokenHeader), body.events, by)),
  });

  return {
    name: 'recorder',
    summary: 'What may be kept of what is said: racks, grants, and who did what. The bearer on loopback too.',
    prefixes: ['/recorder'],
    envelope: recorderRefusalEnvelope,
    errorSchema: recorderRefusal,
    gate: 'bearer',
    routes: refusing([...racksRoutes(recorder), grants, review, ingest]),
  };
}
