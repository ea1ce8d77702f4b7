import { z } from 'zod';
import { invalidBody } from '../../http/violations.ts';
import { prepare } from '../turn/chat.ts';
import { unavailable } from './refusals.ts';
import type { Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import { chatViolations, toChatInput } from '../v1/chat-input.ts';
import { chatRequest } from '../../wires/chat/server-schema.ts';

const rendered = z
  .object({ prompt: z.string().describe('What POST /completion goes on with.') })
  .meta({ id: 'LlamaCppRendered' });

export function templateRoute(resident: Resident) {
  return defineRoute({
    method: 'POST',
    path: '/apply-template',
    operationId: 'llamaCppApplyTemplate',
    summary: "A conversation as the text that the model's chat template makes of it",
    description: 'Takes what POST /v1/chat/completions takes; nothing is generated.',
    body: chatRequest,
    looseBody: true,
    answers: {
      200: { description: 'The text.', content: { 'application/json': rendered } },
      ...unavailable,
    },
    async handle({ body, signal, over }) {
      const wrong = chatViolations(body);
      if (wrong.length > 0) throw invalidBody(wrong);
      const { engine } = await resident.use(body.model || undefined, { signal, over }, 'generate');
      const { text } = await prepare(engine, toChatInput(body));
      return Response.json({ prompt: text } satisfies z.infer<typeof rendered>);
    },
  });
}
