import type { ModelStore } from '../model-store.ts';
import type { Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import { parsedAnswers } from '../turn/chat.ts';
import { type ChoiceEvent, startChoices } from '../turn/choices.ts';
import { sayTexts } from '../turn/said.ts';
import { modelRefusals } from './answers.ts';
import { Clock } from './clock.ts';
import { toPrepared } from './generate-prompt.ts';
import { generateRequest } from './generate-schema.ts';
import { generateLine } from './line-schema.ts';
import { answerInLines } from './lines.ts';
import { loadAnswer } from './load-answer.ts';
import { defaultsOf, nameOf, useModel } from './model.ts';
import { toDrawing } from './options.ts';
import { type Piece, toPieces } from './pieces.ts';
import { requireThinking } from './thinking.ts';

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
    async handle({ body, signal, over, asHttpError, work }) {
      const clock = new Clock();
      const model = nameOf(body);
      const asksNothing = !body.prompt && !body.suffix;
      const kind = asksNothing ? undefined : 'generate';
      const ready = await useModel(resident, model, { signal, over, work }, kind);
      clock.loaded();
      const { engine } = ready;
      if (asksNothing) return loadAnswer(model, clock, body.keep_alive, { response: '' });
      requireThinking(engine, model, body.think);
      const defaults = await defaultsOf(store, model, ready);
      const options = { ...defaults.parameters, ...body.options };
      const { maxTokens, ...drawing } = toDrawing(options, engine.model.contextLength, body, 'prompt');
      const prepared = await toPrepared(engine, body, defaults);
      const { prompt, grammar, visible } = prepared;
      const stop = [...drawing.stop, ...prepared.stop];
      const request = { ...drawing, prompt, maxTokens: maxTokens(prompt.length), stop, grammar, visible };
      const answered: number[] = [];
      sayTexts(work, engine.tokenizer, [prompt]);
      const choices = noting(await startChoices(ready, [request], signal), answered);
      const events = toPieces(parsedAnswers(choices, { prepared, tokenizer: engine.tokenizer, work }));
      const form = {
        model,
        clock,
        body: response,
        atEnd: () =>
          body.raw || body.suffix
            ? {}
            : { context: [...prompt, ...withoutEnd(answered, engine.tokenizer.endIds)] },
      };
      return await answerInLines(events, form, { stream: body.stream !== false, asHttpError });
    },
  });
}

const response = ({ content = '', thinking }: Piece) => ({
  response: content,
  ...(thinking === undefined ? {} : { thinking }),
});

/** Notes the tokens of an answer on their way. */
async function* noting(
  events: AsyncGenerator<ChoiceEvent, void, undefined>,
  ids: number[],
): AsyncGenerator<ChoiceEvent, void, undefined> {
  for await (const event of events) {
    if (event.type === 'text') ids.push(...event.ids);
    yield event;
  }
}

/** The next turn brings the end of this one itself. */
const withoutEnd = (ids: readonly number[], ends: ReadonlySet<number>): readonly number[] =>
  ends.has(ids.at(-1) ?? -1) ? ids.slice(0, -1) : ids;
