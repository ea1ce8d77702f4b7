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
const params = { name: 'The name of a workflow.' };
const base = '/agent/v1/workflows';
/** Room for what is too large, so that a report can say so. */
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
const unknown = answer('There is no workflow of this name.', hostError);
const refused = answer('What is wrong with the source, all of it.', lintReport);

/**
 * Stored workflows, the built-in ones, and what is wrong with a source. `GET /agent/v1/workflows/runs` belongs before
 * these: the first route that fits counts.
 */
export function workflowRoutes(ensembles: Ensembles): Route[] {
  return [
    defineRoute({
      method: 'GET',
      path: base,
      operationId: 'listWorkflows',
      summary: 'Stored workflows',
      answers: { 200: answer('By name.', workflowList) },
      handle: async () => Response.json(await ensembles.list()),
    }),
    defineRoute({
      method: 'POST',
      path: base,
      operationId: 'createWorkflow',
      summary: 'Store a workflow',
      description: 'The body is its TOML.',
      textBody,
      answers: {
        201: answer('As it is stored.', ensembleRecord, true),
        400: refused,
        409: answer('The name exists.', hostError),
      },
      handle: ({ text, by, headers }) =>
        orReport(async () => recordResponse(await ensembles.create(text, by), headers, 201)),
    }),
    defineRoute({
      method: 'GET',
      path: `${base}/builtins`,
      operationId: 'listBuiltinWorkflows',
      summary: 'Workflows that come with the host',
      answers: { 200: answer('By name.', builtinList) },
      handle: async () => Response.json({ builtins: await ensembles.builtins() }),
    }),
    defineRoute({
      method: 'GET',
      path: `${base}/{name}`,
      operationId: 'getWorkflow',
      summary: 'A stored workflow',
      params,
      answers: { 200: answer('As it is stored.', ensembleRecord, true), 404: unknown },
      handle: async ({ params: { name = '' }, headers }) =>
        recordResponse(await ensembles.get(name), headers, 200),
    }),
    defineRoute({
      method: 'PUT',
      path: `${base}/{name}`,
      operationId: 'putWorkflow',
      summary: 'Store or replace a workflow',
      description: 'The body is its TOML, whose name is that of the path.',
      params,
      textBody,
      answers: { 200: answer('As it is stored.', ensembleRecord, true), 400: refused },
      handle: ({ params: { name = '' }, text, by, headers }) =>
        orReport(async () => recordResponse(await ensembles.put(name, text, by), headers, 200)),
    }),
    defineRoute({
      method: 'DELETE',
      path: `${base}/{name}`,
      operationId: 'deleteWorkflow',
      summary: 'Delete a stored workflow',
      description: 'Runs that it has go on with the source they started with.',
      params,
      answers: { 204: answer('It is gone.'), 404: unknown },
      handle: async ({ params: { name = '' }, by }) => {
        await ensembles.delete(name, by);
        return new Response(null, { status: 204 });
      },
    }),
    defineRoute({
      method: 'POST',
      path: `${base}/{name}/lint`,
      operationId: 'lintWorkflow',
      summary: 'What is wrong with a workflow, and what it may do',
      description: 'Of the TOML in the body, or else of the stored workflow. Nothing is changed.',
      params,
      textBody: { limitBytes, notText: (bytes) => Response.json(notText(bytes)) },
      answers: { 200: answer('Everything at once.', lintReportWithConsent), 404: unknown },
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
        404: answer('There is no built-in of this name.', hostError),
        409: answer('A workflow of the target name is stored already.', hostError),
      },
      handle: async ({ params: { name = '' }, body: { as }, by }) =>
        Response.json(await ensembles.fork(name, as, by), { status: 201 }),
    }),
  ];
}

/** The source alone for who asks for text. */
function recordResponse(record: EnsembleRecord, headers: Headers, status: number): Response {
  if (!prefersText(headers.get('accept') ?? '')) return Response.json(record, { status });
  return new Response(record.source, { status, headers: { 'content-type': 'text/plain; charset=utf-8' } });
}

/** Whether text is asked for by name, and not behind JSON. */
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
