import { z } from 'zod';
import { builtinWorkflow, ensembleRecord, forkRequest } from '../../agent/shapes/ensemble.ts';
import { lintReport, lintReportWithConsent } from '../../agent/shapes/lint-report.ts';
import type { EnsembleRecord } from '../../agent/shapes/ensemble.ts';
import { sourceLimitBytes } from '../../agent/workflows/definition/parse-ensemble.ts';
import { notUtf8Report } from '../../agent/workflows/definition/not-utf8.ts';
import { type Ensembles, LintError } from '../../agent/workflows/ensembles.ts';
import { hostError } from '../error-schema.ts';
import { type ResponseSpec, defineRoute, type Route } from '../../http/route.ts';

const workflowSource = z.string().meta({ id: 'WorkflowSource' });
const workflowList = z.array(ensembleRecord).meta({ id: 'WorkflowList' });
const builtinList = z.object({ builtins: z.array(builtinWorkflow) }).meta({ id: 'BuiltinWorkflowList' });
const params = { name: 'Name of the workflow.' };
const basePath = '/agent/v1/workflows';
/** Larger than the source limit, so that a report can describe a source that is too large. */
const limitBytes = 4 * sourceLimitBytes;
const textBody = {
  limitBytes,
  respondNotText: (bytes: Uint8Array) => Response.json(notUtf8Report(bytes), { status: 400 }),
};

const jsonResponse = (description: string, schema?: z.ZodType, alsoText = false): ResponseSpec => ({
  description,
  ...(schema
    ? { content: { 'application/json': schema, ...(alsoText ? { 'text/plain': workflowSource } : {}) } }
    : {}),
});
const notFoundResponse = jsonResponse('No workflow has this name.', hostError);
const lintErrorResponse = jsonResponse('All problems of the source.', lintReport);

/**
 * Routes for stored workflows, built-in workflows and linting. `GET /agent/v1/workflows/runs` must be mounted before
 * these, because the first matching route is used.
 */
export function workflowRoutes(ensembles: Ensembles): Route[] {
  return [
    defineRoute({
      method: 'GET',
      path: basePath,
      operationId: 'listWorkflows',
      summary: 'List the stored workflows',
      responses: { 200: jsonResponse('Sorted by name.', workflowList) },
      handle: async () => Response.json(await ensembles.list()),
    }),
    defineRoute({
      method: 'POST',
      path: basePath,
      operationId: 'createWorkflow',
      summary: 'Store a workflow',
      description: 'The body is its TOML source.',
      textBody,
      responses: {
        201: jsonResponse('The stored workflow.', ensembleRecord, true),
        400: lintErrorResponse,
        409: jsonResponse('The name is taken.', hostError),
      },
      handle: ({ text, by, headers }) =>
        withLintReport(async () => recordResponse(await ensembles.create(text, by), headers, 201)),
    }),
    defineRoute({
      method: 'GET',
      path: `${basePath}/builtins`,
      operationId: 'listBuiltinWorkflows',
      summary: 'List the built-in workflows',
      responses: { 200: jsonResponse('Sorted by name.', builtinList) },
      handle: async () => Response.json({ builtins: await ensembles.builtins() }),
    }),
    defineRoute({
      method: 'GET',
      path: `${basePath}/{name}`,
      operationId: 'getWorkflow',
      summary: 'Get a stored workflow',
      params,
      responses: { 200: jsonResponse('The stored workflow.', ensembleRecord, true), 404: notFoundResponse },
      handle: async ({ params: { name = '' }, headers }) =>
        recordResponse(await ensembles.get(name), headers, 200),
    }),
    defineRoute({
      method: 'PUT',
      path: `${basePath}/{name}`,
      operationId: 'putWorkflow',
      summary: 'Store or replace a workflow',
      description: 'The body is its TOML source; its name must match the path.',
      params,
      textBody,
      responses: { 200: jsonResponse('The stored workflow.', ensembleRecord, true), 400: lintErrorResponse },
      handle: ({ params: { name = '' }, text, by, headers }) =>
        withLintReport(async () => recordResponse(await ensembles.put(name, text, by), headers, 200)),
    }),
    defineRoute({
      method: 'DELETE',
      path: `${basePath}/{name}`,
      operationId: 'deleteWorkflow',
      summary: 'Delete a stored workflow',
      description: 'Existing runs continue with the source they started with.',
      params,
      responses: { 204: jsonResponse('The workflow was deleted.'), 404: notFoundResponse },
      handle: async ({ params: { name = '' }, by }) => {
        await ensembles.delete(name, by);
        return new Response(null, { status: 204 });
      },
    }),
    defineRoute({
      method: 'POST',
      path: `${basePath}/{name}/lint`,
      operationId: 'lintWorkflow',
      summary: 'Check a workflow and summarize its permissions',
      description: 'Checks the TOML source in the body, or else the stored workflow. Nothing is changed.',
      params,
      textBody: { limitBytes, respondNotText: (bytes) => Response.json(notUtf8Report(bytes)) },
      responses: { 200: jsonResponse('All findings.', lintReportWithConsent), 404: notFoundResponse },
      handle: async ({ params: { name = '' }, text }) =>
        Response.json(await ensembles.lint(name, text === '' ? undefined : text)),
    }),
    defineRoute({
      method: 'POST',
      path: `${basePath}/{name}/fork`,
      operationId: 'forkWorkflow',
      summary: 'Copy a built-in workflow into the store',
      params,
      body: forkRequest,
      isBodyOptional: true,
      responses: {
        201: jsonResponse('The copy, with its origin.', ensembleRecord),
        404: jsonResponse('No built-in workflow has this name.', hostError),
        409: jsonResponse('A workflow with the target name exists.', hostError),
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
    accept.split(',').map((mediaRange) => {
      const [type = '', ...more] = mediaRange.split(';').map((part) => part.trim().toLowerCase());
      const q = more.find((part) => part.startsWith('q='));
      return [type, q === undefined ? 1 : Number(q.slice(2))];
    }),
  );
  const text = weights.get('text/plain') ?? weights.get('application/toml') ?? 0;
  return text > (weights.get('application/json') ?? 0);
}

async function withLintReport(action: () => Promise<Response>): Promise<Response> {
  try {
    return await action();
  } catch (error) {
    if (error instanceof LintError) return Response.json(error.report, { status: 400 });
    throw error;
  }
}
