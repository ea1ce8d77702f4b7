import { isRecord, type Json } from '../../util/json.ts';
import { WireError } from '../../wires/core/error.ts';
import type { Conversation, Message, Part } from '../../wires/core/conversation.ts';
import type { Effort, UpstreamModel } from '../../wires/core/types.ts';
import type { UpstreamBody } from '../../wires/core/wire.ts';
import { providerWireOf, type WireKind } from '../../wires/providers.ts';
import { AgentError } from '../errors.ts';
import { type ChatModelMessage, type ChatModelRequest, describeUnseenImage } from '../chat-model.ts';
import { type AnswerData, answerDataFor, sourceOf } from './provider-data.ts';

/** How a model is addressed: what is known of it, and what its refusals have told. */
export interface Dialect {
  readonly model: UpstreamModel;
  /** Most completion tokens that the model allows. */
  readonly maxTokens: number;
  /** False: the server refuses members that it returned itself. */
  readonly returnsMembers: boolean;
  /** Why images are replaced by a text; undefined: they are sent. */
  readonly imageFault: string | undefined;
}

/** The dialect of a model of which only the name is known. */
export const dialectOf = (name: string, url: string, wire: WireKind): Dialect => ({
  model: {
    id: name,
    upstream: name,
    provider: { id: 'gateway', wire, baseUrls: [url] },
    family: 'unknown',
    // Reasoning must be asked for on this wire, since the provider does not store it.
    caps: new Set(wire === 'openai-responses' ? ['reasoning'] : []),
    contextWindow: Number.POSITIVE_INFINITY,
    maxOutputTokens: Number.POSITIVE_INFINITY,
    embeddingDimensions: undefined,
    efforts: wire === 'google' ? googleEfforts(name) : undefined,
  },
  maxTokens: Number.POSITIVE_INFINITY,
  returnsMembers: true,
  imageFault: undefined,
});

export const hasImages = ({ messages }: Pick<ChatModelRequest, 'messages'>): boolean =>
  messages.some((message) => message.role === 'tool' && message.image?.data !== undefined);

/** Whether a refusal is about images. */
export const namesImages = (refusal: string): boolean =>
  /image|vision|visual|multi-?modal|mmproj/i.test(refusal);

/** Whether a refusal says that a model takes no images at all, and not that it cannot read one of them. */
const takesNoImages = (refusal: string): boolean =>
  namesImages(refusal) &&
  !/format|corrupt|too (?:large|big|many)|exceed|dimension|decod|process/i.test(refusal) &&
  /support|multi-?modal|mmproj|unknown variant|text[- ]only|only .*text|vision|does not (?:accept|take|have)|invalid content type|cap(?:s|abilit)/i.test(
    refusal,
  );

/** From the third generation on Google's models have levels, and refuse calls without their signature. */
const googleEfforts = (name: string): readonly Effort[] | undefined => {
  const [, generation] = /^gemini-(\d+)/.exec(name) ?? [];
  return Number(generation) >= 3 ? ['low', 'high'] : undefined;
};

/** What a refusal asks for; undefined where it is no matter of dialect, or the dialect is that already. */
export function adaptedDialect(
  dialect: Dialect,
  refusal: string,
  sent: { readonly maxTokens: number; readonly messages: readonly ChatModelMessage[] },
): Dialect | undefined {
  const { model } = dialect;
  if (dialect.imageFault === undefined && hasImages(sent) && takesNoImages(refusal))
    return { ...dialect, imageFault: 'this model takes no images' };
  if (
    model.provider.wire === 'openai-chat' &&
    model.family !== 'openai' &&
    refusal.includes('max_completion_tokens')
  )
    // As a reasoning model of OpenAI's, which refuses `max_tokens`.
    return { ...dialect, model: { ...model, family: 'openai', caps: new Set(['reasoning']) } };
  if (
    dialect.returnsMembers &&
    model.provider.wire === 'openai-chat' &&
    /reasoning|extra_content/.test(refusal) &&
    sent.messages.some((message) => message.role === 'assistant' && message.providerData)
  )
    return { ...dialect, returnsMembers: false };
  if (model.caps.has('reasoning') && model.provider.wire === 'openai-responses' && /encrypted/i.test(refusal))
    return { ...dialect, model: { ...model, caps: new Set() } };
  const maxTokens = allowedTokens(refusal, Math.min(sent.maxTokens, dialect.maxTokens));
  return maxTokens === undefined ? undefined : { ...dialect, maxTokens };
}

/** The limit that a refusal of the number of completion tokens names. */
function allowedTokens(refusal: string, sent: number): number | undefined {
  if (!/max_(completion_|output_)?tokens|maxOutputTokens|completion tokens|output tokens/.test(refusal))
    return undefined;
  const numbers = [...refusal.matchAll(/(?<![\w.])\d{2,7}(?![\w.]*\w)/g)].map(([digits]) => Number(digits));
  const allowed = numbers.filter((number) => number < sent);
  return allowed.length === 0 ? undefined : Math.max(...allowed);
}

/** @throws AgentError for what the wire cannot express */
export function buildRequest(dialect: Dialect, request: ChatModelRequest): UpstreamBody {
  const { model, imageFault } = dialect;
  const { wire } = model.provider;
  const source = sourceOf(wire, model.id);
  const isChat = wire === 'openai-chat';
  try {
    const body = providerWireOf(wire).upstream.request(
      toConversation(request, { source, isChat, imageFault }),
      {
        model,
        stream: true,
        maxTokens: Math.min(request.maxTokens, dialect.maxTokens),
        // Sampling members already have the names of the wire, including those that only some servers accept.
        ...(isChat ? { extraMembers: request.sampling } : {}),
      },
    );
    return isChat && dialect.returnsMembers ? withReturnedMembers(body, request.messages, source) : body;
  } catch (error) {
    if (!(error instanceof WireError)) throw error;
    throw new AgentError('invalid', error.code ?? 'unsupported', error.message, { cause: error });
  }
}

interface Written extends Pick<Dialect, 'imageFault'> {
  readonly source: string;
  readonly isChat: boolean;
}

function toConversation(
  { messages, tools, sampling, ...request }: ChatModelRequest,
  { source, isChat, imageFault }: Written,
): Conversation {
  const { toolChoice = 'auto', responseFormat } = request;
  const { temperature, top_p: topP, top_k: topK, seed, min_p: minP } = sampling;
  if (!isChat && minP !== undefined)
    throw new AgentError(
      'invalid',
      'unsupported',
      'This model does not support sampling.min_p; leave it out.',
    );
  return {
    messages: withCacheBreakpoints(messages.map((message) => toMessage(message, source, imageFault))),
    tools: tools.map(({ name, description, inputSchema }) => ({
      name,
      description,
      parameters: inputSchema,
    })),
    toolChoice,
    stop: [],
    ...(isChat
      ? {}
      : {
          ...(temperature === undefined ? {} : { temperature }),
          ...(topP === undefined ? {} : { topP }),
          ...(topK === undefined ? {} : { topK }),
          ...(seed === undefined ? {} : { seed }),
        }),
    format:
      responseFormat?.type === 'json_schema'
        ? { type: 'schema', name: 'answer', schema: { ...responseFormat.schema } }
        : { type: responseFormat?.type ?? 'text' },
  };
}

/** The prompt up to here is that of the next turn, too. Providers that cache by themselves do not get the mark. */
function withCacheBreakpoints(messages: readonly Message[]): Message[] {
  const last = messages.length - 1;
  return messages.map((message, n) => {
    const part = message.parts.at(-1);
    const isMarked = n === last || message.role === 'system';
    if (!isMarked || (part?.type !== 'text' && part?.type !== 'tool_result')) return message;
    return { ...message, parts: [...message.parts.slice(0, -1), { ...part, cache: {} }] };
  });
}

type ResultParts = Extract<Part, { type: 'tool_result' }>['parts'];

function toMessage(message: ChatModelMessage, source: string, imageFault: string | undefined): Message {
  const text = { type: 'text' as const, text: message.content };
  switch (message.role) {
    case 'system':
    case 'user':
      return { role: message.role, parts: [text] };
    case 'assistant': {
      const calls = message.calls.map(({ id, name, arguments: args }) => ({
        type: 'tool_call' as const,
        id,
        name,
        arguments: args === '' ? '{}' : args,
      }));
      const { parts } = answerDataFor(message.providerData, source) ?? {};
      if (parts) return { role: 'assistant', parts: withCalls(parts, calls) };
      const hasCallsOnly = message.content === '' && calls.length > 0;
      return { role: 'assistant', parts: hasCallsOnly ? calls : [text, ...calls] };
    }
    case 'tool': {
      const { callId: id, name, image } = message;
      const parts: ResultParts =
        image?.data === undefined
          ? [text]
          : imageFault === undefined
            ? [text, { type: 'image', source: { mediaType: image.mediaType, data: image.data } }]
            : [{ type: 'text', text: describeUnseenImage(image, imageFault) }];
      return { role: 'tool', parts: [{ type: 'tool_result', id, name, parts, failed: false }] };
    }
  }
}

/** The parts as the provider returned them, with the calls as the conversation has them. */
function withCalls(parts: readonly Part[], calls: readonly Extract<Part, { type: 'tool_call' }>[]): Part[] {
  let n = 0;
  return parts.flatMap((part): Part[] => {
    if (part.type !== 'tool_call') return [part];
    const call = calls[n++];
    return call ? [{ ...part, ...call }] : [];
  });
}

/** Adds the members that the provider returned with its answers. */
function withReturnedMembers(
  { path, headers, value }: UpstreamBody,
  messages: readonly ChatModelMessage[],
  source: string,
): UpstreamBody {
  const data: (AnswerData | undefined)[] = messages.flatMap((message) =>
    message.role === 'assistant' ? [answerDataFor(message.providerData, source)] : [],
  );
  let n = 0;
  // An assistant message is one message of the body, too.
  const written = ((value?.['messages'] ?? []) as Json[]).map((message) => {
    if (message['role'] !== 'assistant') return message;
    const { members, callMembers } = data[n++] ?? {};
    const calls = message['tool_calls'];
    return {
      ...message,
      ...members,
      ...(callMembers && Array.isArray(calls)
        ? {
            tool_calls: calls.map((call: unknown, k) =>
              isRecord(call) ? { ...call, ...callMembers[k] } : call,
            ),
          }
        : {}),
    };
  });
  return { path, headers, text: JSON.stringify({ ...value, messages: written }) };
}
