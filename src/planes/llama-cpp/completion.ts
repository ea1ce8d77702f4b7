import { requestBody } from '../../wires/core/members.ts';
import type { Resident } from '../resident.ts';
import { type AnswerSpec, defineRoute } from '../../http/route.ts';
import { completionBody, completionEvent } from '../../wires/llama-cpp/answer-schema.ts';
import { prompts } from '../../wires/llama-cpp/prompt-schema.ts';
import { refusal } from './refusals.ts';
import { encodePrompt } from './prompt.ts';
import { byFirstNames, completionMembers } from '../../wires/llama-cpp/request-schema.ts';
import { answer } from './answer.ts';

const completionRequest = requestBody('LlamaCppCompletionRequest', { prompt: prompts, ...completionMembers });

export const answerSpecs: Readonly<Record<number, AnswerSpec>> = {
  200: {
    description:
      'The answer, or an array where several were requested; with `stream`, events without `[DONE]`.',
    content: { 'application/json': completionBody, 'text/event-stream': completionEvent },
  },
  404: refusal('No such model.'),
  429: refusal('The queue is full; `Retry-After` says when to retry.'),
  503: refusal('No model is resident, the model is loading, or the GPU was lost.'),
};

/** `/completion` and its alias `/completions`. */
export function completionRoutes(resident: Resident) {
  return [
    { path: '/completion', operationId: 'llamaCppCompletion' },
    { path: '/completions', operationId: 'llamaCppCompletions' },
  ].map((place) =>
    defineRoute({
      method: 'POST',
      ...place,
      summary: 'Continue a text',
      description: "llama.cpp's completion. Unknown members are ignored.",
      body: completionRequest,
      looseBody: true,
      completion: { wire: 'llama-cpp', operation: 'text_completion' },
      answers: answerSpecs,
      async handle({ body: given, ...visit }) {
        const body = byFirstNames(given);
        const answering = await resident.use(body.model || undefined, visit, 'generate');
        const { engine } = answering;
        const { prompts: texts, several } = body.prompt;
        const encoded: (readonly number[])[] = [];
        for (const [index, prompt] of texts.entries())
          encoded.push(await encodePrompt(engine, prompt, several ? `prompt.${index}` : 'prompt'));
        return await answer({ answering, prompts: encoded, body, several }, visit);
      },
    }),
  );
}
