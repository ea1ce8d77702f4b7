import { z } from 'zod';
import { invalidBody } from '../../http/violations.ts';
import { prepare } from '../turn/chat.ts';
import { unavailable } from './refusals.ts';
import type { Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import { chatViolations, toChatInput } from '../v1/chat-input.ts';
import { chatRequest } from '../../wires/chat/server-schema.ts';

const rendered = z
  .object({ prompt: z.string().describe('Prompt for POST /completion.') })
  .meta({ id: 'LlamaCppRendered' });

export function templateRoute(resident: Resident) {
  return defineRoute({
    method: 'POST',
    path: '/apply-template',
    operationId: 'llamaCppApplyTemplate',
    summary: "Render a conversation with the model's chat template",
    description: 'Accepts the body of POST /v1/chat/completions; nothing is generated.',
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
