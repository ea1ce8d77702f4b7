import { z } from 'zod';
import { invalidBodyError } from '../../http/violations.ts';
import { preparePrompt } from '../turn/chat.ts';
import { unavailableResponses } from './error-responses.ts';
import type { Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import { findChatViolations, toChatInput } from '../v1/chat-input.ts';
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
    description:
      'Accepts the body of POST /v1/chat/completions; nothing is generated. `add_generation_prompt: false` ends the text with the ' +
      "last message; an assistant's is left open, to be continued.",
    body: chatRequest,
    acceptsLooseContentType: true,
    responses: {
      200: { description: 'The text.', content: { 'application/json': rendered } },
      ...unavailableResponses,
    },
    async handle({ body, signal, finished }) {
      const omitGenerationPrompt =
        body.add_generation_prompt === false && body.messages.at(-1)?.role !== 'assistant';
      const chat = omitGenerationPrompt ? { ...body, add_generation_prompt: undefined } : body;
      const violations = findChatViolations(chat);
      if (violations.length > 0) throw invalidBodyError(violations);
      const { engine } = await resident.acquire(body.model || undefined, { signal, finished }, 'generate');
      const { text } = await preparePrompt(engine, { ...toChatInput(chat), omitGenerationPrompt });
      return Response.json({ prompt: text } satisfies z.infer<typeof rendered>);
    },
  });
}
