import { requestBodySchema } from '../../wires/core/members.ts';
import type { Resident } from '../resident.ts';
import { type ResponseSpec, defineRoute } from '../../http/route.ts';
import { completionBody, completionEvent } from '../../wires/llama-cpp/answer-schema.ts';
import { prompts } from '../../wires/llama-cpp/prompt-schema.ts';
import { errorResponse } from './error-responses.ts';
import { encodePrompt } from './prompt.ts';
import { resolveAliases, completionMembers } from '../../wires/llama-cpp/request-schema.ts';
import { answer } from './answer.ts';

const completionRequest = requestBodySchema('LlamaCppCompletionRequest', {
  prompt: prompts,
  ...completionMembers,
});

export const completionResponses: Readonly<Record<number, ResponseSpec>> = {
  200: {
    description:
      'The answer, or an array where several were requested; with `stream`, events without `[DONE]`.',
    content: { 'application/json': completionBody, 'text/event-stream': completionEvent },
  },
  404: errorResponse('No such model.'),
  429: errorResponse('The queue is full; `Retry-After` says when to retry.'),
  503: errorResponse('No model is resident, the model is loading, or the GPU was lost.'),
};

/** `/completion` and its alias `/completions`. */
export function completionRoutes(resident: Resident) {
  return [
    { path: '/completion', operationId: 'llamaCppCompletion' },
    { path: '/completions', operationId: 'llamaCppCompletions' },
  ].map((endpoint) =>
    defineRoute({
      method: 'POST',
      ...endpoint,
      summary: 'Continue a text',
      description: "llama.cpp's completion. Unknown members are ignored.",
      body: completionRequest,
      acceptsLooseContentType: true,
      completion: { wire: 'llama-cpp', operation: 'text_completion' },
      responses: completionResponses,
      async handle({ body: rawBody, ...context }) {
        const body = resolveAliases(rawBody);
        const resources = await resident.acquire(body.model || undefined, context, 'generate');
        const { engine } = resources;
        const { prompts: promptList, isArray } = body.prompt;
        const encoded: (readonly number[])[] = [];
        for (const [index, prompt] of promptList.entries())
          encoded.push(await encodePrompt(engine, prompt, isArray ? `prompt.${index}` : 'prompt'));
        return await answer({ resources, prompts: encoded, body, isArray }, context);
      },
    }),
  );
}
