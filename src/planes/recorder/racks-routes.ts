import type { RecorderService } from '../../recorder/services.ts';
import type { Rack } from '../../recorder/types.ts';
import { racks } from '../../tracing/index.ts';
import { defineRoute, type Route } from '../../http/route.ts';
import { createResponse, jsonResponse, errorResponse } from './envelope.ts';
import { refusePeers } from './owner-only.ts';
import { rackAnswer, rackChange, racksAnswer, tombstoneAnswer } from './rack-schema.ts';

const params = { id: `Id of the rack: ${racks.join(', ')}.` };
const notFoundResponse = errorResponse('No rack has this id.');
const peersRefusedResponse = errorResponse("Not available with a peer's token.");

/** Routes for racks: what they store, how much and for how long. */
export function racksRoutes(recorder: Pick<RecorderService, 'racks' | 'rack' | 'change' | 'purge'>): Route[] {
  const rackResponse = (rack: Rack) => createResponse('rack', rack, { warnings: findWarnings(rack) });

  const listRacks = defineRoute({
    method: 'GET',
    path: '/recorder/v1/racks',
    operationId: 'listRacks',
    summary: 'List the racks with their state, policy and size',
    responses: { 200: jsonResponse('All racks.', racksAnswer) },
    async handle() {
      const allRacks = await recorder.racks();
      return createResponse('rack', allRacks, { warnings: allRacks.flatMap(findWarnings) });
    },
  });

  const getRack = defineRoute({
    method: 'GET',
    path: '/recorder/v1/racks/{id}',
    operationId: 'getRack',
    summary: 'Get a rack',
    params,
    responses: { 200: jsonResponse('The rack.', rackAnswer), 404: notFoundResponse },
    handle: async ({ params: { id = '' } }) => rackResponse(await recorder.rack(id)),
  });

  const putRack = defineRoute({
    method: 'PUT',
    path: '/recorder/v1/racks/{id}',
    operationId: 'putRack',
    summary: 'Arm or disarm a rack, or set its policy',
    description:
      'Absent members stay unchanged. Disarming keeps the history; lower limits take effect at once.',
    params,
    beforeBody: refusePeers,
    body: rackChange,
    responses: {
      200: jsonResponse('The updated rack.', rackAnswer),
      403: peersRefusedResponse,
      404: notFoundResponse,
    },
    handle: async ({ params: { id = '' }, body, by }) => rackResponse(await recorder.change(id, body, by)),
  });

  const purgeRack = defineRoute({
    method: 'DELETE',
    path: '/recorder/v1/racks/{id}/history',
    operationId: 'purgeRack',
    summary: 'Purge the history of a rack',
    description:
      'The response is sent after the history was removed from the data directory and the removal was verified. The state of the rack does not change.',
    params,
    beforeBody: refusePeers,
    responses: {
      200: jsonResponse('The tombstone of the history.', tombstoneAnswer),
      403: peersRefusedResponse,
      404: notFoundResponse,
    },
    handle: async ({ params: { id = '' }, by }) => createResponse('rack', await recorder.purge(id, by)),
  });

  return [listRacks, getRack, putRack, purgeRack];
}

function findWarnings({ id, armed, policy }: Rack): string[] {
  if (!armed || policy.content !== 'full' || policy.redact.includes('@credentials')) return [];
  return [
    `the rack ${id} stores full texts without redacting credentials; add '@credentials' to policy.redact.`,
  ];
}
