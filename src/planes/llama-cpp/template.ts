import { z } from 'zod';
import { prepareChat } from '../../chat/index.ts';
import { invalidBody } from '../../http/violations.ts';
import { llamaError } from '../error-schema.ts';
import { type Resident, toHttpError } from '../resident.ts';
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
      503: {
        description: 'No resident model, or it is loading.',
        content: { 'application/json': llamaError },
      },
    },
    async handle({ body, signal, over }) {
      const wrong = chatViolations(body);
      if (wrong.length > 0) throw invalidBody(wrong);
      const { engine } = await resident.use(body.model || undefined, { signal, over }, 'generate');
      try {
        const { text } = await prepareChat(engine, toChatInput(body));
        return Response.json({ prompt: text } satisfies z.infer<typeof rendered>);
      } catch (error) {
        throw toHttpError(error);
      }
    },
  });
}
