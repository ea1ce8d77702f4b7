import { z } from 'zod';
import type { ActJournal } from '../../agent/pending/act-journal.ts';
import type { PendingChanges } from '../../agent/pending/pending-changes.ts';
import { acts } from '../../agent/shapes/act.ts';
import { discardRequest, pendingChange, pendingChangeDetail } from '../../agent/shapes/pending-change.ts';
import { invalidBody } from '../../http/violations.ts';
import { hostError } from '../error-schema.ts';
import { defineRoute, type Route } from '../../http/route.ts';

interface PendingRoutesDeps {
  readonly changes: Pick<PendingChanges, 'list' | 'get' | 'approve' | 'discard'>;
  readonly acts: Pick<ActJournal, 'list'>;
}

const pendingChanges = z.array(pendingChange).meta({ id: 'PendingChanges' });
const approved = z.object({ id: z.string(), applied: z.literal(true) }).meta({ id: 'ChangeApplied' });
const discarded = z.object({ id: z.string(), discarded: z.literal(true) }).meta({ id: 'ChangeDiscarded' });

const refusal = (description: string) => ({ description, content: { 'application/json': hostError } });
const json = (description: string, schema: z.ZodType) => ({
  description,
  content: { 'application/json': schema },
});
const unknown = refusal('No change has this id.');
const params = { id: 'Id of the change, such as p1.' };

/** Routes for pending changes and the action journal. */
export function pendingRoutes({ changes, acts: journal }: PendingRoutesDeps): Route[] {
  const list = defineRoute({
    method: 'GET',
    path: '/agent/v1/pending',
    operationId: 'listPendingChanges',
    summary: 'List changes that wait for a decision, oldest first',
    description:
      'A diff of more than 256 Ki characters is truncated and marked; approving applies the whole change.',
    answers: { 200: json('The staged changes.', pendingChanges) },
    handle: async () => Response.json(await changes.list()),
  });

  const one = defineRoute({
    method: 'GET',
    path: '/agent/v1/pending/{id}',
    operationId: 'getPendingChange',
    summary: 'Get a change in any state',
    params,
    answers: { 200: json('The change with its whole diff.', pendingChangeDetail), 404: unknown },
    handle: async ({ params: { id = '' } }) => Response.json(await changes.get(id)),
  });

  const approve = defineRoute({
    method: 'POST',
    path: '/agent/v1/pending/{id}/approve',
    operationId: 'approvePendingChange',
    summary: 'Approve a change and apply it as staged',
    description: 'Approving twice applies the change once. The body is ignored.',
    params,
    answers: {
      200: json('The change was applied.', approved),
      404: unknown,
      409: refusal(
        'Nothing was applied: the target changed since staging, or the change was already decided.',
      ),
    },
    handle: async ({ params: { id = '' }, by, signal }) =>
      Response.json(await changes.approve(id, by, signal)),
  });

  const discard = defineRoute({
    method: 'POST',
    path: '/agent/v1/pending/{id}/discard',
    operationId: 'discardPendingChange',
    summary: 'Discard a change',
    description: 'The note is stored in the action journal only; it is not sent to agents or models.',
    params,
    body: discardRequest,
    bodyOptional: true,
    answers: {
      200: json('The change was discarded.', discarded),
      404: unknown,
      409: refusal('The change was already decided.'),
    },
    handle: async ({ params: { id = '' }, by, body }) =>
      Response.json(await changes.discard(id, by, body.note)),
  });

  const listActs = defineRoute({
    method: 'GET',
    path: '/agent/v1/acts',
    operationId: 'listActs',
    summary: 'List the action journal',
    description: 'Sorted by `seq`. Returns the newest acts, or with `after` the acts after it.',
    query: {
      after: 'The `seq` of the last known act.',
      limit: 'Maximum number of acts: 1 to 1000, default 100.',
    },
    answers: { 200: json('The acts.', acts), 400: refusal('A parameter is out of range or not a number.') },
    async handle({ query }) {
      const { after, limit } = place(query);
      return Response.json({ acts: await journal.list(limit, after) });
    },
  });

  return [list, one, approve, discard, listActs];
}

function place(query: URLSearchParams): { after: number | undefined; limit: number } {
  const whole = (name: string, least: number, most: number) => {
    const text = query.get(name);
    if (text === null) return { value: undefined, violations: [] };
    const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
    if (value >= least && value <= most) return { value, violations: [] };
    const message = `expected a whole number from ${least} to ${most}, got '${text.slice(0, 40)}'`;
    return { value: undefined, violations: [{ path: name, message }] };
  };
  const after = whole('after', 0, Number.MAX_SAFE_INTEGER);
  const limit = whole('limit', 1, 1000);
  const violations = [...after.violations, ...limit.violations];
  if (violations.length > 0) throw invalidBody(violations);
  return { after: after.value, limit: limit.value ?? 100 };
}
