import type { HostedTools } from '../../agent/hosted-tools.ts';
import type { ChatInput } from '../../chat/index.ts';
import { HttpError } from '../../http/error.ts';
import type { AnswerBatches } from '../../wires/core/backend.ts';
import type { ResponseObject } from '../../wires/responses/answer-schema.ts';
import type { InputItem } from '../../wires/responses/items-schema.ts';
import type { ResponseRequest, TokenCountRequest } from '../../wires/responses/server-schema.ts';
import type { Resident } from '../resident.ts';
import { startChat } from '../turn/chat.ts';
import { resolveMaxTokens } from '../turn/encode.ts';
import { randomSeed } from '../turn/identity.ts';
import { type CompletionContext, createAnswerMetadata, type AnswerStream } from '../turn/respond.ts';
import { toSampling, toStops } from '../turn/sampling.ts';
import { findUnenforceableTool } from '../turn/strict-tools.ts';
import { recordConversation } from '../turn/transcript.ts';
import { withGrammarMember } from './grammar-error.ts';
import { answerWithHostedTools } from './hosted-rounds.ts';
import { type HostedCaller, HostedSession } from './hosted-session.ts';
import { type ConversationItems, ownItems, readRequest } from './responses-input.ts';
import type { EarlierItems, ResponseStore } from './stored/response-store.ts';

/** What the routes of responses need. */
export interface ResponsesOptions {
  readonly resident: Resident;
  /** Undefined where the host runs no agents, and so no MCP servers. */
  readonly hostedTools: HostedTools | undefined;
  /** Undefined where the host stores no responses. */
  readonly responses: ResponseStore | undefined;
}

/** A request and who sent it. */
export interface ResponseContext extends CompletionContext {
  readonly by: string;
  readonly scope?: readonly string[] | undefined;
  /** Finds a response that the request continues. Default: among the stored responses. */
  readonly findPrevious?: (id: string) => Promise<EarlierItems>;
}

export interface StartedResponse extends AnswerStream {
  readonly conversation: { readonly earlier: EarlierItems; readonly own: readonly InputItem[] };
  /** Stores the finished response, where it is to be stored. */
  readonly save: (response: ResponseObject) => Promise<void>;
}

const noItems: EarlierItems = { isStored: true, items: [], bytes: 0 };

/** A request as a conversation. */
interface ReadConversation {
  readonly items: ConversationItems;
  readonly earlier: EarlierItems;
  /** Undefined where it has nothing to do with MCP servers. */
  readonly session: HostedSession | undefined;
}

/** Loads what a request continues, and resolves its MCP tools. @throws HttpError */
export async function readConversation(
  { hostedTools, responses }: Pick<ResponsesOptions, 'hostedTools' | 'responses'>,
  body: Pick<TokenCountRequest, 'input' | 'previous_response_id' | 'tools'>,
  { findPrevious, ...caller }: HostedCaller & Pick<ResponseContext, 'findPrevious'>,
): Promise<ReadConversation> {
  const { previous_response_id: previousId } = body;
  const find = findPrevious ?? (async (id: string) => await responses?.conversation(id, caller.by));
  const earlier = (typeof previousId === 'string' ? await find(previousId) : undefined) ?? noItems;
  const items = { earlier: earlier.items, own: ownItems(body) };
  const session = await HostedSession.open(body.tools, [...items.earlier, ...items.own], {
    ...caller,
    hostedTools,
  });
  return { items, earlier, session };
}

/** Starts to answer a request. @throws HttpError */
export async function startResponse(
  options: ResponsesOptions,
  body: ResponseRequest,
  { by, scope, signal, finished, span, findPrevious }: ResponseContext,
): Promise<StartedResponse> {
  const { resident, responses } = options;
  const caller = { by, scope, signal, ...(findPrevious ? { findPrevious } : {}) };
  const { items, earlier, session } = await readConversation(options, body, caller);
  const ready = await resident.acquire(body.model, { signal, finished, span }, 'generate');
  const { model, tokenizer } = ready.engine;
  const logprobs = body.top_logprobs || body.include?.includes('message.output_text.logprobs');
  const settings = {
    sampling: toSampling(body, tokenizer, randomSeed),
    stop: toStops(body.stop),
    ...(logprobs ? { logprobs: body.top_logprobs ?? 0 } : {}),
  };
  const start = async (input: ChatInput, limit: number | null | undefined, traced?: typeof span) => {
    const maxTokens = (prompt: number) => resolveMaxTokens(prompt, model.contextLength, 'messages', limit);
    const { events } = await startChat(ready, { ...settings, input, maxTokens }, signal, traced).catch(
      (error: unknown) => {
        throw withGrammarMember(withInputParam(error), () => grammarMember(body));
      },
    );
    return events;
  };
  const { max_output_tokens: maxTokens, max_tool_calls: maxCalls } = body;
  let request = readRequest(body, items, session);
  let events: AnswerBatches;
  if (session) {
    // The whole request was read before any call is made.
    const decided = await session.decide();
    if (decided.length > 0) request = readRequest(body, items, session);
    recordConversation(span, request.input);
    const first = await start(request.input, maxTokens);
    events = answerWithHostedTools(first, { ...request, session, decided, span, start, maxTokens, maxCalls });
  } else events = await start(request.input, maxTokens, span);
  const isStored = responses !== undefined && body.store !== false;
  const metadata = createAnswerMetadata(model, { body, facts: { includeUsage: true, answers: 1 } });
  return {
    events,
    seed: settings.sampling.seed,
    conversation: { earlier, own: items.own },
    metadata: {
      ...metadata,
      resident: {
        ...metadata.resident,
        response: { previousId: body.previous_response_id ?? null, isStored },
      },
    },
    save: async (response) => {
      if (isStored) await responses.save({ response, earlier, input: items.own }, by);
    },
  };
}

/** The request member that the grammar comes from, or the tool schema that cannot be enforced. */
function grammarMember({ tools, text }: Pick<ResponseRequest, 'tools' | 'text'>): string {
  const defined = (tools ?? []).map((tool) =>
    tool.type === 'function'
      ? { strict: tool.strict, schema: tool.parameters }
      : { strict: undefined, schema: undefined },
  );
  const bySchema = text?.format?.type === 'json_schema';
  return findUnenforceableTool(defined, 'parameters') ?? (bySchema ? 'text.format.schema' : 'tools');
}

/** On this wire the conversation is in the member `input`. */
export function withInputParam(error: unknown): unknown {
  if (!(error instanceof HttpError) || error.param !== 'messages') return error;
  const { status, code, message, violations, headers } = error;
  return new HttpError(status, code, message, {
    param: 'input',
    headers,
    ...(violations ? { violations } : {}),
  });
}
