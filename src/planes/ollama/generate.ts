import type { ModelStore } from '../model-store.ts';
import type { Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import { generateRequest } from '../../wires/ollama/generate-schema.ts';
import { generateLine } from '../../wires/ollama/line-schema.ts';
import { generateForm } from '../../wires/ollama/writer.ts';
import { parsedAnswers } from '../turn/chat.ts';
import { type ChoiceEvent, startChoices } from '../turn/choices.ts';
import { sayTexts } from '../turn/said.ts';
import { answer } from './answer.ts';
import { modelRefusals } from './answers.ts';
import { toPrepared } from './generate-prompt.ts';

export function generateRoute(resident: Resident, store: ModelStore) {
  return defineRoute({
    method: 'POST',
    path: '/api/generate',
    operationId: 'ollamaGenerate',
    summary: 'Answer a prompt, or fill in the middle of a text',
    description: "Ollama's generate, in lines of JSON unless `stream` is false. Unknown members are ignored.",
    body: generateRequest,
    looseBody: true,
    completion: { wire: 'ollama', operation: 'text_completion', streams: true },
    answers: {
      200: {
        description: 'The answer; its last line, or the only body, has `done`, `context` and the durations.',
        content: { 'application/x-ndjson': generateLine, 'application/json': generateLine },
      },
      ...modelRefusals,
    },
    handle: ({ body, ...visit }) =>
      answer({ resident, store }, body, visit, {
        asksNothing: !body.prompt && !body.suffix,
        param: 'prompt',
        form: generateForm,
        async start(ready, { maxTokens, ...drawing }, defaults) {
          const { tokenizer } = ready.engine;
          const { signal, work } = visit;
          const prepared = await toPrepared(ready.engine, body, defaults);
          const { prompt, grammar, visible } = prepared;
          const stop = [...drawing.stop, ...prepared.stop];
          const request = { ...drawing, prompt, maxTokens: maxTokens(prompt.length), stop, grammar, visible };
          sayTexts(work, tokenizer, [prompt]);
          const ids: number[] = [];
          const choices = noting(await startChoices(ready, [request], signal), ids);
          const events = parsedAnswers(choices, { prepared, tokenizer, work });
          if (body.raw || body.suffix) return { events };
          return { events, atEnd: () => ({ context: [...prompt, ...withoutEnd(ids, tokenizer.endIds)] }) };
        },
      }),
  });
}

/** Collects the tokens of an answer while its events pass through. */
async function* noting(
  events: AsyncGenerator<ChoiceEvent, void, undefined>,
  ids: number[],
): AsyncGenerator<ChoiceEvent, void, undefined> {
  for await (const event of events) {
    if (event.type === 'text') ids.push(...event.ids);
    yield event;
  }
}

/** Removes the end token, because the next turn starts with it. */
const withoutEnd = (ids: readonly number[], ends: ReadonlySet<number>): readonly number[] =>
  ends.has(ids.at(-1) ?? -1) ? ids.slice(0, -1) : ids;
