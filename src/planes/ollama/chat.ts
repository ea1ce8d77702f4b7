import type { ModelStore } from '../model-store.ts';
import type { Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import { chatRequest } from '../../wires/ollama/chat-schema.ts';
import { chatLine } from '../../wires/ollama/line-schema.ts';
import { chatForm } from '../../wires/ollama/writer.ts';
import { startChat } from '../turn/chat.ts';
import { answer } from './answer.ts';
import { modelRefusals } from './answers.ts';
import { toChatInput } from './chat-input.ts';
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
    handle: ({ body, ...visit }) =>
      answer({ resident, store }, body, visit, {
        asksNothing: (body.messages ?? []).length === 0,
        param: 'messages',
        form: chatForm,
        async start(ready, drawing, defaults) {
          const asked = toChatInput(body, defaults);
          const { engine } = ready;
          const input =
            body.truncate === false ? asked : await withinContext(engine, asked, drawing.maxTokens);
          return { events: (await startChat(ready, { ...drawing, input }, visit.signal, visit.work)).events };
        },
      }),
  });
}
