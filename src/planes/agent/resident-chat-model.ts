import { AgentError } from '../../agent/errors.ts';
import {
  type ChatModel,
  type ChatModelEvent,
  type ChatModelMessage,
  type ChatModelRequest,
  describeUnseenImage,
} from '../../agent/chat-model.ts';
import type { ChatInput, ChatTurn, ToolDefinition } from '../../chat/index.ts';
import type { GrammarErrorCode } from '../../grammar/types.ts';
import { HttpError } from '../../http/error.ts';
import { tryParseJson } from '../../util/json.ts';
import type { ReadyModel, Resident } from '../resident.ts';
import { startChat } from '../turn/chat.ts';
import type { AnswerBatches } from '../../wires/core/backend.ts';
import { resolveMaxTokens } from '../turn/encode.ts';
import { randomSeed } from '../turn/identity.ts';
import { toSampling } from '../turn/sampling.ts';

/**
 * The resident model as the chat model of agents. A grammar constrains tool calls to the schemas of the tools. A schema
 * that no grammar can enforce, or that would fill the context, constrains to any object, and the agent loop validates
 * the arguments.
 */
export class ResidentChatModel implements ChatModel {
  readonly route;
  readonly #resident: Resident;

  /** @param model id of the resident model; where requests may swap it, it is loaded again */
  constructor(resident: Resident, model: string) {
    this.#resident = resident;
    this.route = { engine: 'resident' as const, model };
  }

  async *streamAnswer(
    request: ChatModelRequest,
    signal: AbortSignal,
  ): AsyncGenerator<ChatModelEvent, void, undefined> {
    // While an answer is generated, the model cannot be swapped.
    const finished = Promise.withResolvers<void>();
    const leave = new AbortController();
    const combinedSignal = AbortSignal.any([signal, leave.signal]);
    try {
      const lease = { signal: combinedSignal, finished: finished.promise };
      const ready = await this.#resident.acquire(this.route.model, lease, 'generate');
      yield* toChatModelEvents(await startAnswer(ready, request, combinedSignal));
    } catch (error) {
      signal.throwIfAborted();
      throw toAgentError(error);
    } finally {
      leave.abort();
      finished.resolve();
    }
  }
}

/**
 * Minimum length of a schema that is included completely, in characters. The limit is half as many characters as the
 * context has tokens, about a sixth of the context; more would leave too little for the rest.
 */
const minSchemaChars = 2048;

async function startAnswer(
  ready: ReadyModel,
  request: ChatModelRequest,
  signal: AbortSignal,
): Promise<AnswerBatches> {
  const { model, tokenizer } = ready.engine;
  const start = async (tools: ToolDefinition[]) => {
    const { events } = await startChat(
      ready,
      {
        input: toChatInput(request, tools),
        n: 1,
        sampling: toSampling(request.sampling, tokenizer, randomSeed),
        stop: [],
        maxTokens: (prompt) =>
          resolveMaxTokens(prompt, model.contextLength, 'messages', undefined, request.maxTokens),
      },
      signal,
    );
    return events;
  };
  const maxSchemaChars = Math.max(minSchemaChars, Math.floor(model.contextLength / 2));
  try {
    return await start(request.tools.map((tool) => toDefinition(tool, maxSchemaChars)));
  } catch (error) {
    if (!(error instanceof HttpError) || !grammarCodes.has(error.code ?? '') || request.tools.length === 0)
      throw error;
    return await start(request.tools.map((tool) => toLooseDefinition(tool, maxSchemaChars)));
  }
}

const grammarCodes: ReadonlySet<string> = new Set<GrammarErrorCode>([
  'unsupported_schema',
  'invalid_grammar',
  'grammar_too_complex',
]);

async function* toChatModelEvents(batches: AnswerBatches): AsyncGenerator<ChatModelEvent, void, undefined> {
  const calls: { id: string; name: string; pieces: string[] }[] = [];
  let promptTokens = 0;
  let completionTokens = 0;
  for await (const batch of batches)
    for (const event of batch) {
      if (event.type === 'text') yield { type: 'delta', text: event.text };
      else if (event.type === 'reasoning') yield { type: 'reasoning', text: event.text };
      else if (event.type === 'tool_call')
        calls[event.index] = { id: event.id, name: event.name, pieces: [] };
      else if (event.type === 'tool_arguments') calls[event.index]?.pieces.push(event.text);
      else if (event.type === 'usage') {
        promptTokens = event.usage.fresh + event.usage.cacheRead;
        completionTokens = event.usage.output;
      } else if (event.type === 'finish') {
        for (const { id, name, pieces } of calls)
          yield { type: 'call', call: { id, name, arguments: pieces.join('') } };
        const finish = event.reason === 'content_filter' ? 'stop' : event.reason;
        yield { type: 'end', finish, usage: { promptTokens, completionTokens } };
      }
    }
}

function toChatInput(
  { messages, tools, toolChoice = 'auto', responseFormat }: ChatModelRequest,
  definitions: ToolDefinition[],
): ChatInput {
  return {
    messages: messages.map(toTurn),
    ...(tools.length > 0 ? { tools: definitions, toolChoice } : {}),
    ...(responseFormat
      ? {
          output:
            responseFormat.type === 'json'
              ? { kind: 'json' }
              : { kind: 'json_schema', schema: responseFormat.schema },
        }
      : {}),
  };
}

function toTurn(message: ChatModelMessage): ChatTurn {
  if (message.role === 'tool') {
    const { content, callId, name, image } = message;
    return { role: 'tool', content: image ? describeUnseenImage(image) : content, callId, name };
  }
  if (message.role !== 'assistant') return message;
  const toolCalls = message.calls.map(({ id, name, arguments: text }) => ({
    id,
    name,
    arguments: tryParseJson(text, text),
  }));
  return { role: 'assistant', content: message.content, ...(toolCalls.length > 0 ? { toolCalls } : {}) };
}

type Tool = ChatModelRequest['tools'][number];

/** @param maxSchemaChars limit of the schema; a token is about four characters */
const toDefinition = (tool: Tool, maxSchemaChars: number): ToolDefinition =>
  JSON.stringify(tool.inputSchema).length > maxSchemaChars
    ? toLooseDefinition(tool, maxSchemaChars)
    : { name: tool.name, description: tool.description, parameters: tool.inputSchema };

/** A definition that allows any object; the description includes as much of the schema as fits. */
function toLooseDefinition({ name, description, inputSchema }: Tool, maxSchemaChars: number): ToolDefinition {
  const schema = JSON.stringify(inputSchema);
  const shortenedSchema =
    schema.length > maxSchemaChars
      ? `${schema.slice(0, maxSchemaChars).replace(/[\uD800-\uDBFF]$/, '')} (cut off)`
      : schema;
  return {
    name,
    description: `${description}\nThe arguments must fit this JSON schema: ${shortenedSchema}`,
    parameters: { type: 'object', additionalProperties: true },
  };
}

/** Converts an HTTP error to an agent error; returns any other error unchanged. */
function toAgentError(error: unknown): unknown {
  if (!(error instanceof HttpError)) return error;
  const { status, code = 'unavailable', message } = error;
  if (code === 'context_length_exceeded') return new AgentError('invalid', code, message, { cause: error });
  return new AgentError(status === 429 ? 'too_many' : 'unavailable', code, message, { cause: error });
}
