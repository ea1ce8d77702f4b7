import type { ModelStore } from '../model-store.ts';
import type { Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import { chatRequest } from '../../wires/ollama/chat-schema.ts';
import { chatLine } from '../../wires/ollama/line-schema.ts';
import { formatChatPiece } from '../../wires/ollama/writer.ts';
import { startChat } from '../turn/chat.ts';
import { answer } from './answer.ts';
import { modelErrorResponses } from './error-responses.ts';
import { toChatInput } from './chat-input.ts';
import { truncateToContext } from './truncate.ts';

/** @param truncatesChats whether conversations that exceed the context lose their oldest turns by default */
export function chatRoute(resident: Resident, store: ModelStore, truncatesChats: boolean) {
  return defineRoute({
    method: 'POST',
    path: '/api/chat',
    operationId: 'ollamaChat',
    summary: 'Continue a conversation',
    description:
      "Ollama's chat, in lines of JSON unless `stream` is false. Unknown members are ignored. Where the oldest messages were dropped, the response has their number in the header `x-lathe-dropped-messages`, and the last line in `dropped_messages`.",
    body: chatRequest,
    acceptsLooseContentType: true,
    completion: { wire: 'ollama', operation: 'chat', streams: true },
    responses: {
      200: {
        description: 'The answer; its last line, or the only body, has `done` and the durations.',
        content: { 'application/x-ndjson': chatLine, 'application/json': chatLine },
      },
      ...modelErrorResponses,
    },
    handle: ({ body, ...context }) =>
      answer({ resident, store }, body, context, {
        isLoadOnly: (body.messages ?? []).length === 0,
        param: 'messages',
        formatPiece: formatChatPiece,
        async start(ready, drawing, defaults) {
          const fullInput = toChatInput(body, defaults);
          const { engine } = ready;
          const { input, droppedMessages } =
            (body.truncate ?? truncatesChats)
              ? await truncateToContext(engine, fullInput, drawing.maxTokens)
              : { input: fullInput, droppedMessages: 0 };
          const { events } = await startChat(ready, { ...drawing, input }, context.signal, context.span);
          return { events, droppedMessages };
        },
      }),
  });
}
