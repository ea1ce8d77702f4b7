import { z } from 'zod';
import { requestBody } from '../../wires/core/members.ts';
import { list } from '../../http/schema/list.ts';
import type { Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import { fimPrompt, requireFim } from '../turn/fim.ts';
import { refusal } from './refusals.ts';
import { answerSpecs } from './completion.ts';
import { byFirstNames, completionMembers } from '../../wires/llama-cpp/request-schema.ts';
import { answer } from './answer.ts';

const required = (member: string) =>
  z.string({
    error: ({ input }) =>
      input === undefined || input === null ? `"${member}" is required` : `"${member}" must be a string`,
  });
const extraForm = '"input_extra" must be an array of {"filename": string, "text": string}';
const extraPart = (member: string) =>
  `extra_context chunk must contain a "${member}" field with a string value`;

const infillRequest = requestBody('LlamaCppInfillRequest', {
  input_prefix: required('input_prefix').describe('Text before the missing part.'),
  input_suffix: required('input_suffix').describe('Text after the missing part.'),
  prompt: z
    .string({ error: '"prompt" must be a string' })
    .nullish()
    .describe('Beginning of the missing part.'),
  input_extra: list(
    z.object(
      {
        text: z.string({ error: extraPart('text') }),
        filename: z.string({ error: extraPart('filename') }).optional(),
      },
      { error: extraForm },
    ),
    { error: extraForm, most: { count: 10_000, error: 'at most 10000 chunks' } },
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
    looseBody: true,
    completion: { wire: 'llama-cpp', operation: 'text_completion' },
    before: () => {
      if (resident.state.kind === 'ready' && !resident.swaps) requireFim(resident.state.engine);
    },
    answers: {
      ...answerSpecs,
      501: refusal('The model has no fill-in-the-middle tokens.'),
    },
    async handle({ body: given, ...visit }) {
      const body = byFirstNames(given);
      const answering = await resident.use(body.model || undefined, visit, 'generate');
      const { engine } = answering;
      const parts = {
        prefix: body.input_prefix,
        suffix: body.input_suffix,
        middle: body.prompt ?? '',
        extra: body.input_extra ?? [],
      };
      const wanted = body.n_predict ?? -1;
      // At most half of the context, so that the other half is left for the text around the gap.
      const leave = wanted < 0 ? undefined : Math.min(wanted, engine.model.contextLength >> 1);
      const prompts = [fimPrompt(engine, parts, leave)];
      return await answer({ answering, prompts, body, several: false }, visit);
    },
  });
}
