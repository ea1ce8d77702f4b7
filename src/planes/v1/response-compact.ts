import type { ChatInput } from '../../chat/index.ts';
import { defineRoute, type Route } from '../../http/route.ts';
import { invalidBodyError } from '../../http/violations.ts';
import type { AnswerEvent } from '../../wires/core/answer.ts';
import { collectEvents } from '../../wires/core/backend.ts';
import { createId } from '../../wires/responses/common-members.ts';
import { encodeSummary } from '../../wires/responses/encrypted-content.ts';
import type { InputItem } from '../../wires/responses/items-schema.ts';
import { compactedConversation } from '../../wires/responses/resource-schema.ts';
import { createCompactRequest } from '../../wires/responses/server-schema.ts';
import { writeStoredItem } from '../../wires/responses/stored-items.ts';
import { writeUsage } from '../../wires/responses/usage.ts';
import { openaiErrorResponses } from '../error-schema.ts';
import { startChat } from '../turn/chat.ts';
import { resolveMaxTokens } from '../turn/encode.ts';
import { randomSeed } from '../turn/identity.ts';
import { withSeed } from '../turn/respond.ts';
import { toSampling } from '../turn/sampling.ts';
import { readConversation, type ResponsesOptions, withInputParam } from './response-start.ts';
import { readRequest } from './responses-input.ts';

const summaryRequest =
  'Summarize this conversation for an assistant who continues it without seeing your earlier answers: what was asked, ' +
  'what was answered and decided, what tools returned, and what is still open. Write the summary only.';
/** Limits of the summary, in tokens and as a part of the context, whose rest is for what follows. */
const maxSummaryTokens = 1024;
const maxSummaryShare = 0.25;
/** Length of the summary that is made without the model. */
const maxExcerptChars = 4000;

export function compactRoute(options: ResponsesOptions): Route {
  return defineRoute({
    method: 'POST',
    path: '/v1/responses/compact',
    operationId: 'compactResponse',
    summary: 'Shorten a conversation',
    description:
      'The messages of users, the system and developers stay as they are. All other items are replaced by one item of type ' +
      '`compaction`, with a summary that the resident model writes. Send the output, and what follows, as the input of the ' +
      'next request, without `previous_response_id`. Nothing is stored.',
    body: createCompactRequest(options.responses !== undefined),
    completion: { wire: 'responses', operation: 'chat' },
    responses: {
      200: {
        description: 'The shorter conversation.',
        content: { 'application/json': compactedConversation },
      },
      ...openaiErrorResponses,
    },
    async handle({ body, by, scope, signal, finished, span }) {
      const { items, session } = await readConversation(options, body, { by, scope, signal });
      const { input } = readRequest(body, items, session);
      if (items.earlier.length + items.own.length === 0)
        throw invalidBodyError([{ path: 'input', message: 'expected a text or an array of items' }]);
      const ready = await options.resident.acquire(body.model, { signal, finished, span }, 'generate');
      const { model, tokenizer } = ready.engine;
      const sampling = toSampling({ temperature: 0 }, tokenizer, randomSeed);
      const { events } = await startChat(
        ready,
        {
          input: toSummaryInput(input),
          sampling,
          stop: [],
          maxTokens: (prompt) =>
            resolveMaxTokens(prompt, model.contextLength, 'messages', undefined, summaryLimit(model)),
        },
        signal,
        span,
      ).catch((error: unknown) => {
        throw withInputParam(error);
      });
      const answer = await collectEvents(events);
      const summary = shorterOf(textOf(answer), replacedText(input));
      const compacted = Response.json({
        id: createId('resp', true),
        object: 'response.compaction',
        created_at: Math.floor(Date.now() / 1000),
        output: [
          ...items.earlier.filter(isKept),
          ...items.own.filter(isKept).map(writeStoredItem),
          { id: createId('cmp', true), type: 'compaction', encrypted_content: encodeSummary(summary) },
        ],
        usage: writeUsage(usageOf(answer)),
      });
      return withSeed(compacted, sampling.seed);
    },
  });
}

const isKept = (item: InputItem): boolean => 'role' in item && item.role !== 'assistant';

const toSummaryInput = ({ messages }: ChatInput): ChatInput => ({
  messages: [...messages, { role: 'user', content: summaryRequest }],
  thinking: false,
});

const textOf = (events: readonly AnswerEvent[]): string =>
  events
    .map((event) => (event.type === 'text' ? event.text : ''))
    .join('')
    .trim();

const summaryLimit = ({ contextLength }: { readonly contextLength: number }): number =>
  Math.max(1, Math.min(maxSummaryTokens, Math.floor(contextLength * maxSummaryShare)));

/** What the assistant and its tools said. */
const replacedText = ({ messages }: ChatInput): string =>
  messages
    .map(({ role, content }) => (role === 'assistant' || role === 'tool' ? content : ''))
    .filter((text) => text !== '')
    .join('\n');

/** A summary that is not shorter than what it replaces is none: a small model may repeat itself. */
const shorterOf = (summary: string, replaced: string): string =>
  summary !== '' && summary.length < replaced.length ? summary : replaced.slice(-maxExcerptChars);

function usageOf(events: readonly AnswerEvent[]) {
  const last = events.findLast((event) => event.type === 'usage');
  return last?.usage ?? { fresh: 0, cacheWrite: 0, cacheWrite1h: 0, cacheRead: 0, output: 0 };
}
