import { z } from 'zod';
import { requestBodySchema } from '../../wires/core/members.ts';
import { list } from '../../http/schema/list.ts';
import type { Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import { buildFimPrompt, requireFim } from '../turn/fim.ts';
import { errorResponse } from './error-responses.ts';
import { completionResponses } from './completion.ts';
import { resolveAliases, completionMembers } from '../../wires/llama-cpp/request-schema.ts';
import { answer } from './answer.ts';

const required = (member: string) =>
  z.string({
    error: ({ input }) =>
      input === undefined || input === null ? `"${member}" is required` : `"${member}" must be a string`,
  });
const extraError = '"input_extra" must be an array of {"filename": string, "text": string}';
const extraMemberError = (member: string) =>
  `extra_context chunk must contain a "${member}" field with a string value`;

const infillRequest = requestBodySchema('LlamaCppInfillRequest', {
  input_prefix: required('input_prefix').describe('Text before the missing part.'),
  input_suffix: required('input_suffix').describe('Text after the missing part.'),
  prompt: z
    .string({ error: '"prompt" must be a string' })
    .nullish()
    .describe('Beginning of the missing part.'),
  input_extra: list(
    z.object(
      {
        text: z.string({ error: extraMemberError('text') }),
        filename: z.string({ error: extraMemberError('filename') }).optional(),
      },
      { error: extraError },
    ),
    { error: extraError, max: { count: 10_000, error: 'at most 10000 chunks' } },
  )
    .nullish()
    .describe('Other files, the most relevant last; the first ones are dropped where they do not fit.'),
  ...completionMembers,
});

export function infillRoute(resident: Resident) {
  return defineRoute({
    method: 'POST',
    path: '/infill',
    operationId: 'llamaCppInfill',
    summary: 'Fill in a gap in a text',
    description:
      "llama.cpp's infill, with the options of `/completion`. Text that does not fit the context is dropped, starting farthest from the gap.",
    body: infillRequest,
    acceptsLooseContentType: true,
    completion: { wire: 'llama-cpp', operation: 'text_completion' },
    beforeBody: () => {
      if (resident.state.kind === 'ready' && !resident.canLoad) requireFim(resident.state.engine);
    },
    responses: {
      ...completionResponses,
      501: errorResponse('The model has no fill-in-the-middle tokens.'),
    },
    async handle({ body: rawBody, ...context }) {
      const body = resolveAliases(rawBody);
      const resources = await resident.acquire(body.model || undefined, context, 'generate');
      const { engine } = resources;
      const parts = {
        prefix: body.input_prefix,
        suffix: body.input_suffix,
        middle: body.prompt ?? '',
        extra: body.input_extra ?? [],
      };
      const requestedTokens = body.n_predict ?? -1;
      // At most half of the context, so that the other half is left for the text around the gap.
      const answerTokens =
        requestedTokens < 0 ? undefined : Math.min(requestedTokens, engine.model.contextLength >> 1);
      const prompts = [buildFimPrompt(engine, parts, answerTokens)];
      return await answer({ resources, prompts, body, isArray: false }, context);
    },
  });
}
