import type { RecorderService } from '../../recorder/services.ts';
import type { Rack } from '../../recorder/types.ts';
import { racks } from '../../watch/index.ts';
import { defineRoute, type Route } from '../../http/route.ts';
import { answer, json, refusal } from './envelope.ts';
import { ownerOnly } from './owner-only.ts';
import { rackAnswer, rackChange, racksAnswer, tombstoneAnswer } from './rack-schema.ts';

const params = { id: `Of the rack: ${racks.join(', ')}.` };
const unknown = refusal('There is no such rack.');
const notOfPeers = refusal("A peer's token does not do here.");

/** What is kept, how much of it and for how long. */
export function racksRoutes(recorder: Pick<RecorderService, 'racks' | 'rack' | 'change' | 'purge'>): Route[] {
  const rackAs = (rack: Rack) => answer('rack', rack, { warnings: warningsOf(rack) });

  const list = defineRoute({
    method: 'GET',
    path: '/recorder/v1/racks',
    operationId: 'listRacks',
    summary: 'The racks: whether armed, by which policy, and what they hold',
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
    summary: 'A rack',
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
      'What is absent stays as it is. Disarming keeps the history; bounds that got tighter count at once.',
    params,
    before: ownerOnly,
    body: rackChange,
    answers: { 200: json('The rack as it is now.', rackAnswer), 403: notOfPeers, 404: unknown },
    handle: async ({ params: { id = '' }, body, by }) => rackAs(await recorder.change(id, body, by)),
  });

  const purge = defineRoute({
    method: 'DELETE',
    path: '/recorder/v1/racks/{id}/history',
    operationId: 'purgeRack',
    summary: "Remove all of a rack's history",
    description:
      'It is gone from the data directory, and was looked for, when the answer comes. The rack stays armed or not.',
    params,
    before: ownerOnly,
    answers: { 200: json('What is left of it.', tombstoneAnswer), 403: notOfPeers, 404: unknown },
    handle: async ({ params: { id = '' }, by }) => answer('rack', await recorder.purge(id, by)),
  });

  return [list, one, put, purge];
}

function warningsOf({ id, armed, policy }: Rack): string[] {
  if (!armed || policy.content !== 'full' || policy.redact.includes('@credentials')) return [];
  return [
    `the rack ${id} keeps whole texts without looking for credentials in them; '@credentials' among policy.redact does.`,
  ];
}
