import type { ModelStore } from '../model-store.ts';
import type { Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import { startChat } from '../turn/chat.ts';
import { modelRefusals } from './answers.ts';
import { toChatInput } from './chat-input.ts';
import { chatRequest } from './chat-schema.ts';
import { Clock } from './clock.ts';
import { chatLine } from './line-schema.ts';
import { answerInLines } from './lines.ts';
import { loadAnswer } from './load-answer.ts';
import { defaultsOf, nameOf, useModel } from './model.ts';
import { toDrawing } from './options.ts';
import { type Piece, toPieces } from './pieces.ts';
import { requireThinking } from './thinking.ts';
import { withinContext } from './truncate.ts';

export function chatRoute(resident: Resident, store: ModelStore) {
  return defineRoute({
    method: 'POST',
    path: '/api/chat',
    operationId: 'ollamaChat',
    summary: 'Continue a conversation',
    description: "Ollama's chat, in lines of JSON unless `stream` is false. Unknown members are ignored.",
    body: chatRequest,
    looseBody: true,
    completion: { wire: 'ollama', operation: 'chat', streams: true },
    answers: {
      200: {
        description: 'The answer; its last line, or the only body, has `done` and the durations.',
        content: { 'application/x-ndjson': chatLine, 'application/json': chatLine },
      },
      ...modelRefusals,
    },
    async handle({ body, signal, over, asHttpError, work }) {
      const clock = new Clock();
      const model = nameOf(body);
      const asksNothing = (body.messages ?? []).length === 0;
      const kind = asksNothing ? undefined : 'generate';
      const ready = await useModel(resident, model, { signal, over, work }, kind);
      clock.loaded();
      const { engine } = ready;
      if (asksNothing) return loadAnswer(model, clock, body.keep_alive, message({ content: '' }));
      requireThinking(engine, model, body.think);
      const defaults = await defaultsOf(store, model, ready);
      const options = { ...defaults.parameters, ...body.options };
      const drawing = toDrawing(options, engine.model.contextLength, body, 'messages');
      const asked = toChatInput(body, defaults);
      const input = body.truncate === false ? asked : await withinContext(engine, asked, drawing.maxTokens);
      const { events } = await startChat(ready, { ...drawing, input }, signal, work);
      const form = { model, clock, body: message };
      return await answerInLines(toPieces(events), form, { stream: body.stream !== false, asHttpError });
    },
  });
}

const message = ({ content = '', thinking, calls = [] }: Piece) => ({
  message: {
    role: 'assistant' as const,
    content,
    ...(thinking === undefined ? {} : { thinking }),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  },
});
