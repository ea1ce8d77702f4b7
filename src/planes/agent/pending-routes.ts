import { z } from 'zod';
import type { ActJournal } from '../../agent/pending/act-journal.ts';
import type { PendingChanges } from '../../agent/pending/pending-changes.ts';
import { acts } from '../../agent/shapes/act.ts';
import {
  approveRequest,
  discardRequest,
  editRequest,
  pendingChange,
  pendingChangeDetail,
} from '../../agent/shapes/pending-change.ts';
import { invalidBodyError } from '../../http/violations.ts';
import { hostError } from '../error-schema.ts';
import { defineRoute, type Route } from '../../http/route.ts';

interface PendingRoutesDeps {
  readonly changes: Pick<PendingChanges, 'list' | 'get' | 'edit' | 'approve' | 'approveSet' | 'discard'>;
  readonly acts: Pick<ActJournal, 'list'>;
}

const pendingChanges = z.array(pendingChange).meta({ id: 'PendingChanges' });
const approved = z.object({ id: z.string(), applied: z.literal(true) }).meta({ id: 'ChangeApplied' });
const discarded = z.object({ id: z.string(), discarded: z.literal(true) }).meta({ id: 'ChangeDiscarded' });

const edited = z.object({ id: z.string(), edited: z.literal(true) }).meta({ id: 'ChangeEdited' });

const approvedSet = z
  .object({ applied: z.array(z.string()).describe('Ids in the order that the changes were applied.') })
  .meta({ id: 'ChangesApplied' });

const errorResponse = (description: string) => ({ description, content: { 'application/json': hostError } });
const jsonResponse = (description: string, schema: z.ZodType) => ({
  description,
  content: { 'application/json': schema },
});
const notFoundResponse = errorResponse('No change has this id.');
const params = { id: 'Id of the change, such as p1.' };

/** Routes for pending changes and the action journal. */
export function pendingRoutes({ changes, acts: journal }: PendingRoutesDeps): Route[] {
  const listChanges = defineRoute({
    method: 'GET',
    path: '/agent/v1/pending',
    operationId: 'listPendingChanges',
    summary: 'List changes that wait for a decision, oldest first',
    description:
      'A diff of more than 256 Ki characters is truncated and marked; approving applies the whole change.',
    responses: { 200: jsonResponse('The staged changes.', pendingChanges) },
    handle: async () => Response.json(await changes.list()),
  });

  const getChange = defineRoute({
    method: 'GET',
    path: '/agent/v1/pending/{id}',
    operationId: 'getPendingChange',
    summary: 'Get a change in any state',
    params,
    responses: {
      200: jsonResponse('The change with its whole diff.', pendingChangeDetail),
      404: notFoundResponse,
    },
    handle: async ({ params: { id = '' } }) => Response.json(await changes.get(id)),
  });

  const approveChange = defineRoute({
    method: 'POST',
    path: '/agent/v1/pending/{id}/approve',
    operationId: 'approvePendingChange',
    summary: 'Approve a change and apply it as staged',
    description:
      'Approving twice applies the change once. The body is ignored. With `digest` only the change that you have seen is approved: a person may edit it meanwhile.',
    params,
    query: { digest: 'Digest of the change as you have seen it, from GET.' },
    responses: {
      200: jsonResponse('The change was applied.', approved),
      404: notFoundResponse,
      409: errorResponse(
        'Nothing was applied: the target changed since staging, or the change was already decided.',
      ),
    },
    handle: async ({ params: { id = '' }, by, signal, query }) =>
      Response.json(await changes.approve(id, by, signal, query.get('digest') ?? undefined)),
  });

  const approveChanges = defineRoute({
    method: 'POST',
    path: '/agent/v1/pending/approve',
    operationId: 'approvePendingChanges',
    summary: 'Approve changes of files together',
    description:
      'They are applied in the order that they were staged, or none is applied. After a crash of the host in between, it applies the rest when it starts.',
    body: approveRequest,
    responses: {
      200: jsonResponse('All changes were applied.', approvedSet),
      404: notFoundResponse,
      409: errorResponse(
        'Nothing was applied: a file changed since staging, a change was already decided, or one is no change of a file.',
      ),
    },
    handle: async ({ body, by }) => Response.json({ applied: await changes.approveSet(body.ids, by) }),
  });

  const editChange = defineRoute({
    method: 'POST',
    path: '/agent/v1/pending/{id}/edit',
    operationId: 'editPendingChange',
    summary: 'Replace the text of a change before approving it',
    description:
      'The change stays staged, with a new diff. When it is applied, the agent is told what was changed.',
    params,
    body: editRequest,
    responses: {
      200: jsonResponse('The change has the new text.', edited),
      400: errorResponse('The body is invalid, or the text cannot be written to a file.'),
      404: notFoundResponse,
      409: errorResponse('The change was already decided, or is no text of a file.'),
    },
    handle: async ({ params: { id = '' }, by, body }) =>
      Response.json(await changes.edit(id, body.content, by)),
  });

  const discardChange = defineRoute({
    method: 'POST',
    path: '/agent/v1/pending/{id}/discard',
    operationId: 'discardPendingChange',
    summary: 'Discard a change',
    description:
      'The note is stored in the action journal. It is sent to the agent of a task that waits for the decision (`approvals: "wait"`), and to no other.',
    params,
    body: discardRequest,
    isBodyOptional: true,
    responses: {
      200: jsonResponse('The change was discarded.', discarded),
      404: notFoundResponse,
      409: errorResponse('The change was already decided.'),
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
    responses: {
      200: jsonResponse('The acts.', acts),
      400: errorResponse('A parameter is out of range or not a number.'),
    },
    async handle({ query }) {
      const { after, limit } = readPage(query);
      return Response.json({ acts: await journal.list(limit, after) });
    },
  });

  // Before the routes with a name in its place, so that "method not allowed" names its own.
  return [listChanges, approveChanges, getChange, approveChange, editChange, discardChange, listActs];
}

function readPage(query: URLSearchParams): { after: number | undefined; limit: number } {
  const readInteger = (name: string, min: number, max: number) => {
    const text = query.get(name);
    if (text === null) return { value: undefined, violations: [] };
    const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
    if (value >= min && value <= max) return { value, violations: [] };
    const message = `expected a whole number from ${min} to ${max}, got '${text.slice(0, 40)}'`;
    return { value: undefined, violations: [{ path: name, message }] };
  };
  const after = readInteger('after', 0, Number.MAX_SAFE_INTEGER);
  const limit = readInteger('limit', 1, 1000);
  const violations = [...after.violations, ...limit.violations];
  if (violations.length > 0) throw invalidBodyError(violations);
  return { after: after.value, limit: limit.value ?? 100 };
}
