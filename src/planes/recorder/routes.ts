import { racks } from '../../tracing/index.ts';
import type { RecorderService } from '../../recorder/services.ts';
import { readIntegerQuery } from '../agent/integer-query.ts';
import { defineRoute, type Plane } from '../../http/route.ts';
import {
  createResponse,
  jsonResponse,
  recorderErrorSchema,
  recorderErrorEnvelope,
  errorResponse,
} from './envelope.ts';
import { grantsAnswer, reviewAnswer } from './grant-schema.ts';
import { ingestAnswer, ingestLimits, ingestRequest } from './ingest-schema.ts';
import { refusePeers } from './owner-only.ts';
import { racksRoutes } from './racks-routes.ts';
import { withHttpErrors } from './http-errors.ts';
import { commandOf } from '../../terminal/program.ts';

const tokenHeader = 'x-svc-write-token';
const rackQuery = { rack: `Only this rack: ${racks.join(', ')}.` };
const rackNotFoundResponse = errorResponse('No rack has this id.');
const peersRefusedResponse = errorResponse("Not available with a peer's token.");
const limitRange = { min: 1, max: 1000, defaultValue: 100 };
const afterRange = { min: 0, max: 999_999_999, defaultValue: 0 };

/**
 * The recorder plane: what conversation content may be stored, from the planes and from other senders. Stored content
 * is read through the observe plane.
 */
export function createRecorderPlane(recorder: RecorderService): Plane {
  const grants = defineRoute({
    method: 'GET',
    path: '/recorder/v1/grants',
    operationId: 'listGrants',
    summary: 'List grants and write tokens, newest first',
    description: `Grants and write tokens are created on the command line: \`${commandOf('host')} recorder grant\`.`,
    query: rackQuery,
    beforeBody: refusePeers,
    responses: {
      200: jsonResponse('Grants and tokens, including expired ones.', grantsAnswer),
      403: peersRefusedResponse,
      404: rackNotFoundResponse,
    },
    handle: async ({ query }) =>
      createResponse('grant', await recorder.grants(query.get('rack') ?? undefined)),
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
    beforeBody: refusePeers,
    responses: {
      200: jsonResponse('The entries.', reviewAnswer),
      400: errorResponse('A parameter is out of range or not a number.'),
      403: peersRefusedResponse,
      404: rackNotFoundResponse,
    },
    async handle({ query }) {
      const after = readIntegerQuery(query, 'after', afterRange);
      const limit = readIntegerQuery(query, 'limit', limitRange);
      return createResponse(
        'review',
        await recorder.review({ rack: query.get('rack') ?? undefined, after, limit }),
      );
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
    responses: {
      200: jsonResponse('Counts of accepted and duplicate events.', ingestAnswer),
      401: errorResponse('The bearer token or the write token is missing, wrong or expired.'),
      403: errorResponse('The write token belongs to another caller.'),
      409: errorResponse('The rack is disarmed, or redacting these events takes too long.'),
      429: errorResponse('Too many events arrive; `Retry-After` says when to retry.'),
      503: errorResponse('The events cannot be stored now.'),
    },
    async beforeBody({ headers, by }) {
      // Refuses and records the attempt in the review; the body is not needed for that.
      if (headers.get(tokenHeader) === null) await recorder.ingest(null, [], by);
    },
    handle: async ({ body, headers, by }) =>
      createResponse('ingest', await recorder.ingest(headers.get(tokenHeader), body.events, by)),
  });

  return {
    name: 'recorder',
    summary:
      'Recorder: what conversation content may be stored. Racks, grants and a review log. Requires the bearer token, also on loopback.',
    prefixes: ['/recorder'],
    envelope: recorderErrorEnvelope,
    errorSchema: recorderErrorSchema,
    gate: 'bearer',
    routes: withHttpErrors([...racksRoutes(recorder), grants, review, ingest]),
  };
}
