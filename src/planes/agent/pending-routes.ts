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
const unknown = refusal('There is no such change.');
const params = { id: 'Of the change: p1.' };

/** Changes that wait for a person, and the journal of who decided. */
export function pendingRoutes({ changes, acts: journal }: PendingRoutesDeps): Route[] {
  const list = defineRoute({
    method: 'GET',
    path: '/agent/v1/pending',
    operationId: 'listPendingChanges',
    summary: 'Changes that wait for a decision, oldest first',
    description: 'A diff of more than 256 Ki characters is cut, and says so; approving applies the whole.',
    answers: { 200: json('The staged changes.', pendingChanges) },
    handle: async () => Response.json(await changes.list()),
  });

  const one = defineRoute({
    method: 'GET',
    path: '/agent/v1/pending/{id}',
    operationId: 'getPendingChange',
    summary: 'A change, whatever became of it',
    params,
    answers: { 200: json('With its whole diff.', pendingChangeDetail), 404: unknown },
    handle: async ({ params: { id = '' } }) => Response.json(await changes.get(id)),
  });

  const approve = defineRoute({
    method: 'POST',
    path: '/agent/v1/pending/{id}/approve',
    operationId: 'approvePendingChange',
    summary: 'Apply exactly what was staged',
    description: 'Approving twice applies once. A body is not read.',
    params,
    answers: {
      200: json('It is applied.', approved),
      404: unknown,
      409: refusal(
        'Nothing was applied, and why: what it was staged upon moved, or it was decided otherwise.',
      ),
    },
    handle: async ({ params: { id = '' }, by, signal }) =>
      Response.json(await changes.approve(id, by, signal)),
  });

  const discard = defineRoute({
    method: 'POST',
    path: '/agent/v1/pending/{id}/discard',
    operationId: 'discardPendingChange',
    summary: 'Decline a change',
    description: 'A note goes into the action journal; no agent and no model gets to know it.',
    params,
    body: discardRequest,
    bodyOptional: true,
    answers: {
      200: json('It is discarded.', discarded),
      404: unknown,
      409: refusal('It was decided otherwise before.'),
    },
    handle: async ({ params: { id = '' }, by, body }) =>
      Response.json(await changes.discard(id, by, body.note)),
  });

  const listActs = defineRoute({
    method: 'GET',
    path: '/agent/v1/acts',
    operationId: 'listActs',
    summary: 'The action journal: who did what, and when',
    description: 'In the order of `seq`. Without `after` the newest ones; with it those after that act.',
    query: {
      after: 'The `seq` of the last act that is known.',
      limit: 'At most so many: 1 to 1000, default 100.',
    },
    answers: { 200: json('The acts.', acts), 400: refusal('A parameter is no such number.') },
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
