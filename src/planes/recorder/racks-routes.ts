import type { RecorderService } from '../../recorder/services.ts';
import type { Rack } from '../../recorder/types.ts';
import { racks } from '../../watch/index.ts';
import { defineRoute, type Route } from '../../http/route.ts';
import { answer, json, refusal } from './envelope.ts';
import { ownerOnly } from './owner-only.ts';
import { rackAnswer, rackChange, racksAnswer, tombstoneAnswer } from './rack-schema.ts';

const params = { id: `Id of the rack: ${racks.join(', ')}.` };
const unknown = refusal('No rack has this id.');
const notOfPeers = refusal("Not available with a peer's token.");

/** Routes for racks: what they store, how much and for how long. */
export function racksRoutes(recorder: Pick<RecorderService, 'racks' | 'rack' | 'change' | 'purge'>): Route[] {
  const rackAs = (rack: Rack) => answer('rack', rack, { warnings: warningsOf(rack) });

  const list = defineRoute({
    method: 'GET',
    path: '/recorder/v1/racks',
    operationId: 'listRacks',
    summary: 'List the racks with their state, policy and size',
    answers: { 200: json('All racks.', racksAnswer) },
    async handle() {
      const all = await recorder.racks();
      return answer('rack', all, { warnings: all.flatMap(warningsOf) });
    },
  });

  const one = defineRoute({
    method: 'GET',
    path: '/recorder/v1/racks/{id}',
    operationId: 'getRack',
    summary: 'Get a rack',
    params,
    answers: { 200: json('The rack.', rackAnswer), 404: unknown },
    handle: async ({ params: { id = '' } }) => rackAs(await recorder.rack(id)),
  });

  const put = defineRoute({
    method: 'PUT',
    path: '/recorder/v1/racks/{id}',
    operationId: 'putRack',
    summary: 'Arm or disarm a rack, or set its policy',
    description:
      'Absent members stay unchanged. Disarming keeps the history; lower limits take effect at once.',
    params,
    before: ownerOnly,
    body: rackChange,
    answers: { 200: json('The updated rack.', rackAnswer), 403: notOfPeers, 404: unknown },
    handle: async ({ params: { id = '' }, body, by }) => rackAs(await recorder.change(id, body, by)),
  });

  const purge = defineRoute({
    method: 'DELETE',
    path: '/recorder/v1/racks/{id}/history',
    operationId: 'purgeRack',
    summary: 'Purge the history of a rack',
    description:
      'The response is sent after the history was removed from the data directory and the removal was verified. The state of the rack does not change.',
    params,
    before: ownerOnly,
    answers: { 200: json('The tombstone of the history.', tombstoneAnswer), 403: notOfPeers, 404: unknown },
    handle: async ({ params: { id = '' }, by }) => answer('rack', await recorder.purge(id, by)),
  });

  return [list, one, put, purge];
}

function warningsOf({ id, armed, policy }: Rack): string[] {
  if (!armed || policy.content !== 'full' || policy.redact.includes('@credentials')) return [];
  return [
    `the rack ${id} stores full texts without redacting credentials; add '@credentials' to policy.redact.`,
  ];
}
