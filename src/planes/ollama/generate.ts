import type { ModelStore } from '../model-store.ts';
import type { Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import { generateRequest } from '../../wires/ollama/generate-schema.ts';
import { generateLine } from '../../wires/ollama/line-schema.ts';
import { formatGeneratePiece } from '../../wires/ollama/writer.ts';
import { parseAnswers } from '../turn/chat.ts';
import { type ChoiceEvent, startChoices } from '../turn/choices.ts';
import { recordTexts } from '../turn/transcript.ts';
import { answer } from './answer.ts';
import { modelErrorResponses } from './error-responses.ts';
import { preparePromptFor } from './generate-prompt.ts';

export function generateRoute(resident: Resident, store: ModelStore) {
  return defineRoute({
    method: 'POST',
    path: '/api/generate',
    operationId: 'ollamaGenerate',
    summary: 'Answer a prompt, or fill in the middle of a text',
    description: "Ollama's generate, in lines of JSON unless `stream` is false. Unknown members are ignored.",
    body: generateRequest,
    acceptsLooseContentType: true,
    completion: { wire: 'ollama', operation: 'text_completion', streams: true },
    responses: {
      200: {
        description: 'The answer; its last line, or the only body, has `done`, `context` and the durations.',
        content: { 'application/x-ndjson': generateLine, 'application/json': generateLine },
      },
      ...modelErrorResponses,
    },
    handle: ({ body, ...context }) =>
      answer({ resident, store }, body, context, {
        isLoadOnly: !body.prompt && !body.suffix,
        param: 'prompt',
        formatPiece: formatGeneratePiece,
        async start(ready, { maxTokens, ...drawing }, defaults) {
          const { tokenizer } = ready.engine;
          const { signal, span } = context;
          const prepared = await preparePromptFor(ready.engine, body, defaults);
          const { prompt, grammar, visible } = prepared;
          const stop = [...drawing.stop, ...prepared.stop];
          const request = { ...drawing, prompt, maxTokens: maxTokens(prompt.length), stop, grammar, visible };
          recordTexts(span, tokenizer, [prompt]);
          const ids: number[] = [];
          const choices = collectIds(await startChoices(ready, [request], signal), ids);
          const events = parseAnswers(choices, { prepared, tokenizer, span });
          if (body.raw || body.suffix) return { events };
          return {
            events,
            finalMembers: () => ({ context: [...prompt, ...withoutEndToken(ids, tokenizer.endIds)] }),
          };
        },
      }),
  });
}

/** Collects the tokens of an answer while its events pass through. */
async function* collectIds(
  events: AsyncGenerator<ChoiceEvent, void, undefined>,
  ids: number[],
): AsyncGenerator<ChoiceEvent, void, undefined> {
  for await (const event of events) {
    if (event.type === 'text') ids.push(...event.ids);
    yield event;
  }
}

/** Removes the end token, because the next turn starts with it. */
const withoutEndToken = (ids: readonly number[], ends: ReadonlySet<number>): readonly number[] =>
  ends.has(ids.at(-1) ?? -1) ? ids.slice(0, -1) : ids;
