import { z } from 'zod';
import { builtinWorkflow, ensembleRecord, forkRequest } from '../../agent/shapes/ensemble.ts';
import { lintReport, lintReportWithConsent } from '../../agent/shapes/lint-report.ts';
import type { EnsembleRecord } from '../../agent/shapes/ensemble.ts';
import { sourceLimitBytes } from '../../agent/workflows/definition/parse.ts';
import { notText } from '../../agent/workflows/definition/not-text.ts';
import { type Ensembles, LintRefusal } from '../../agent/workflows/ensembles.ts';
import { hostError } from '../error-schema.ts';
import { type AnswerSpec, defineRoute, type Route } from '../../http/route.ts';

const workflowSource = z.string().meta({ id: 'WorkflowSource' });
const workflowList = z.array(ensembleRecord).meta({ id: 'WorkflowList' });
const builtinList = z.object({ builtins: z.array(builtinWorkflow) }).meta({ id: 'BuiltinWorkflowList' });
const params = { name: 'Name of the workflow.' };
const base = '/agent/v1/workflows';
/** Larger than the source limit, so that a report can describe a source that is too large. */
const limitBytes = 4 * sourceLimitBytes;
const textBody = {
  limitBytes,
  notText: (bytes: Uint8Array) => Response.json(notText(bytes), { status: 400 }),
};

const answer = (description: string, schema?: z.ZodType, alsoText = false): AnswerSpec => ({
  description,
  ...(schema
    ? { content: { 'application/json': schema, ...(alsoText ? { 'text/plain': workflowSource } : {}) } }
    : {}),
});
const unknown = answer('No workflow has this name.', hostError);
const refused = answer('All problems of the source.', lintReport);

/**
 * Routes for stored workflows, built-in workflows and linting. `GET /agent/v1/workflows/runs` must be mounted before
 * these, because the first matching route is used.
 */
export function workflowRoutes(ensembles: Ensembles): Route[] {
  return [
    defineRoute({
      method: 'GET',
      path: base,
      operationId: 'listWorkflows',
      summary: 'List the stored workflows',
      answers: { 200: answer('Sorted by name.', workflowList) },
      handle: async () => Response.json(await ensembles.list()),
    }),
    defineRoute({
      method: 'POST',
      path: base,
      operationId: 'createWorkflow',
      summary: 'Store a workflow',
      description: 'The body is its TOML source.',
      textBody,
      answers: {
        201: answer('The stored workflow.', ensembleRecord, true),
        400: refused,
        409: answer('The name is taken.', hostError),
      },
      handle: ({ text, by, headers }) =>
        orReport(async () => recordResponse(await ensembles.create(text, by), headers, 201)),
    }),
    defineRoute({
      method: 'GET',
      path: `${base}/builtins`,
      operationId: 'listBuiltinWorkflows',
      summary: 'List the built-in workflows',
      answers: { 200: answer('Sorted by name.', builtinList) },
      handle: async () => Response.json({ builtins: await ensembles.builtins() }),
    }),
    defineRoute({
      method: 'GET',
      path: `${base}/{name}`,
      operationId: 'getWorkflow',
      summary: 'Get a stored workflow',
      params,
      answers: { 200: answer('The stored workflow.', ensembleRecord, true), 404: unknown },
      handle: async ({ params: { name = '' }, headers }) =>
        recordResponse(await ensembles.get(name), headers, 200),
    }),
    defineRoute({
      method: 'PUT',
      path: `${base}/{name}`,
      operationId: 'putWorkflow',
      summary: 'Store or replace a workflow',
      description: 'The body is its TOML source; its name must match the path.',
      params,
      textBody,
      answers: { 200: answer('The stored workflow.', ensembleRecord, true), 400: refused },
      handle: ({ params: { name = '' }, text, by, headers }) =>
        orReport(async () => recordResponse(await ensembles.put(name, text, by), headers, 200)),
    }),
    defineRoute({
      method: 'DELETE',
      path: `${base}/{name}`,
      operationId: 'deleteWorkflow',
      summary: 'Delete a stored workflow',
      description: 'Existing runs continue with the source they started with.',
      params,
      answers: { 204: answer('The workflow was deleted.'), 404: unknown },
      handle: async ({ params: { name = '' }, by }) => {
        await ensembles.delete(name, by);
        return new Response(null, { status: 204 });
      },
    }),
    defineRoute({
      method: 'POST',
      path: `${base}/{name}/lint`,
      operationId: 'lintWorkflow',
      summary: 'Check a workflow and summarize its permissions',
      description: 'Checks the TOML source in the body, or else the stored workflow. Nothing is changed.',
      params,
      textBody: { limitBytes, notText: (bytes) => Response.json(notText(bytes)) },
      answers: { 200: answer('All findings.', lintReportWithConsent), 404: unknown },
      handle: async ({ params: { name = '' }, text }) =>
        Response.json(await ensembles.lint(name, text === '' ? undefined : text)),
    }),
    defineRoute({
      method: 'POST',
      path: `${base}/{name}/fork`,
      operationId: 'forkWorkflow',
      summary: 'Copy a built-in workflow into the store',
      params,
      body: forkRequest,
      bodyOptional: true,
      answers: {
        201: answer('The copy, with its origin.', ensembleRecord),
        404: answer('No built-in workflow has this name.', hostError),
        409: answer('A workflow with the target name exists.', hostError),
      },
      handle: async ({ params: { name = '' }, body: { as }, by }) =>
        Response.json(await ensembles.fork(name, as, by), { status: 201 }),
    }),
  ];
}

/** Responds with the source alone where the client prefers text. */
function recordResponse(record: EnsembleRecord, headers: Headers, status: number): Response {
  if (!prefersText(headers.get('accept') ?? '')) return Response.json(record, { status });
  return new Response(record.source, { status, headers: { 'content-type': 'text/plain; charset=utf-8' } });
}

/** Whether the client accepts text explicitly and prefers it to JSON. */
function prefersText(accept: string): boolean {
  const weights = new Map(
    accept.split(',').map((one) => {
      const [type = '', ...more] = one.split(';').map((part) => part.trim().toLowerCase());
      const q = more.find((part) => part.startsWith('q='));
      return [type, q === undefined ? 1 : Number(q.slice(2))];
    }),
  );
  const text = weights.get('text/plain') ?? weights.get('application/toml') ?? 0;
  return text > (weights.get('application/json') ?? 0);
}

async function orReport(work: () => Promise<Response>): Promise<Response> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof LintRefusal) return Response.json(error.report, { status: 400 });
    throw error;
  }
}
