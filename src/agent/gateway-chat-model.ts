import { ChunkReader, isErrorChunk, parseFrame } from '../wires/chat/reader.ts';
import type { AnswerEvent } from '../wires/core/answer.ts';
import { providerHeaders } from '../wires/provider-headers.ts';
import type { Usage } from '../wires/core/types.ts';
import { UpstreamFailure } from '../wires/core/upstream-failure.ts';
import { providerWireOf, type WireKind } from '../wires/providers.ts';
import { AgentError } from './errors.ts';
import { readFrames } from './gateway-chat-model/frames.ts';
import {
  connectionError,
  interruptedError,
  readErrorBody,
  refusalMessage,
  toAgentError,
} from './gateway-chat-model/errors.ts';
import { AnswerParts, ChatMembers, sourceOf } from './gateway-chat-model/provider-data.ts';
import {
  adaptedDialect,
  buildRequest,
  type Dialect,
  dialectOf,
  hasImages,
  namesImages,
} from './gateway-chat-model/request.ts';
import type { ChatModel, ChatModelToolCall, ChatModelEvent, ChatModelRequest } from './chat-model.ts';

/** A model server: a gateway, or a provider itself. */
export interface GatewayEndpoint {
  /** Base URL of its API: `https://host/v1`. */
  readonly url: string;
  /** Default `openai-chat`. */
  readonly wire?: Exclude<WireKind, 'lathe'>;
  /** API key; undefined when the server needs none. */
  readonly key?: string;
  /** Models that agents may use; undefined allows all. */
  readonly models?: readonly string[];
  /** Maximum time without data; default two minutes. */
  readonly timeoutMs?: number;
}

const defaultTimeoutMs = 120_000;
/** Requests of one answer: the first, and one for each thing that a refusal taught. */
const maxRequests = 4;

/** Statuses of refused images; OpenRouter has no endpoint for them, llama.cpp fails. */
const imageStatuses: ReadonlySet<number> = new Set([400, 404, 415, 422, 500, 501]);

type Call = { -readonly [Member in keyof ChatModelToolCall]: ChatModelToolCall[Member] };

/** Chat model of a gateway, called on the gateway's wire. Its errors never contain the key. */
export class GatewayChatModel implements ChatModel {
  readonly route;
  readonly #gateway: GatewayEndpoint;
  readonly #wire: Exclude<WireKind, 'lathe'>;
  #dialect: Dialect;

  constructor(gateway: GatewayEndpoint, model: string) {
    this.#gateway = gateway;
    this.#wire = gateway.wire ?? 'openai-chat';
    this.#dialect = dialectOf(model, gateway.url, this.#wire);
    this.route = { engine: 'gateway' as const, model };
  }

  async *streamAnswer(
    request: ChatModelRequest,
    signal: AbortSignal,
  ): AsyncGenerator<ChatModelEvent, void, undefined> {
    const cancellation = new AbortController();
    const combinedSignal = AbortSignal.any([signal, cancellation.signal]);
    const timeoutMs = this.#gateway.timeoutMs ?? defaultTimeoutMs;
    const timeoutError = new AgentError(
      'unavailable',
      'gateway_timeout',
      `The gateway sent nothing for ${timeoutMs / 1000} s. To wait longer, raise [gateway] timeout_secs in the configuration.`,
    );
    let timer: NodeJS.Timeout | undefined;
    const onActivity = () => {
      clearTimeout(timer);
      timer = setTimeout(() => cancellation.abort(timeoutError), timeoutMs);
    };
    onActivity();
    try {
      yield* this.#events(request, combinedSignal, onActivity);
    } catch (error) {
      signal.throwIfAborted();
      throw cancellation.signal.aborted ? timeoutError : error;
    } finally {
      clearTimeout(timer);
      cancellation.abort();
    }
  }

  async *#events(
    request: ChatModelRequest,
    signal: AbortSignal,
    onActivity: () => void,
  ): AsyncGenerator<ChatModelEvent, void, undefined> {
    const response = await this.#send(request, signal);
    const calls = new Map<number, Call>();
    const parts = new AnswerParts();
    const members = new ChatMembers();
    let usage: Usage | undefined;
    let reason: Extract<AnswerEvent, { type: 'finish' }>['reason'] | undefined;
    for await (const event of this.#answerEvents(response, members, onActivity)) {
      parts.add(event);
      switch (event.type) {
        case 'text':
        case 'refusal':
          yield { type: 'delta', text: event.text };
          break;
        case 'reasoning':
          yield { type: 'reasoning', text: event.text };
          break;
        case 'tool_call':
          calls.set(event.index, { id: event.id, name: event.name, arguments: '' });
          break;
        case 'tool_arguments': {
          const call = calls.get(event.index);
          if (call) call.arguments += event.text;
          break;
        }
        case 'usage':
          ({ usage } = event);
          break;
        case 'finish':
          ({ reason } = event);
          break;
        case 'failure':
          throw interruptedError(event.error);
        default:
      }
    }
    if (reason === undefined) throw interruptedError();
    for (const call of calls.values()) yield { type: 'call', call };
    const isEarlyEnd = reason === 'length' || reason === 'content_filter';
    const finish = isEarlyEnd ? reason : calls.size > 0 ? 'tool_calls' : 'stop';
    const { signedParts } = parts;
    const data = this.#wire === 'openai-chat' ? members.complete : signedParts ? { parts: signedParts } : {};
    const source = sourceOf(this.#wire, this.route.model);
    yield {
      type: 'end',
      finish,
      ...toUsage(usage),
      ...(this.#dialect.maxTokens < request.maxTokens ? { maxTokens: this.#dialect.maxTokens } : {}),
      ...(Object.keys(data).length > 0 ? { providerData: { source, ...data } } : {}),
    };
  }

  /** The events of an answer, streamed or whole. */
  async *#answerEvents(
    response: Response,
    members: ChatMembers,
    onActivity: () => void,
  ): AsyncGenerator<AnswerEvent, void, undefined> {
    const isWhole = response.headers.get('content-type')?.includes('json') ?? false;
    const upstream = providerWireOf(this.#wire).upstream;
    const reader = upstream.reader();
    for await (const frame of readFrames(response, onActivity)) {
      if (reader instanceof ChunkReader) {
        const chunk = parseFrame(frame);
        // An answer is complete when its finish reason came, not with `[DONE]`; unreadable frames are skipped.
        if (typeof chunk === 'string') continue;
        if (isErrorChunk(chunk, frame.event))
          throw toAgentError(500, frame.data, this.route.model, this.#gateway.key);
        yield* reader.read(chunk);
        members.add(chunk, reader.choiceReader(0)?.calls.lastPieces ?? []);
      } else if (isWhole) {
        try {
          yield* upstream.answer(frame.data);
        } catch (error) {
          throw error instanceof UpstreamFailure ? interruptedError(error) : error;
        }
      } else yield* reader.push(frame);
    }
    if (!isWhole && !(reader instanceof ChunkReader)) yield* reader.end();
  }

  /** Sends again what a refusal asks for, and keeps it from then on. */
  async #send(request: ChatModelRequest, signal: AbortSignal): Promise<Response> {
    // What only this request needs: the next one may be without the image that was refused.
    let forRequest: Partial<Dialect> = {};
    for (let requests = 1; ; requests++) {
      const response = await this.#post({ ...this.#dialect, ...forRequest }, request, signal);
      if (response.ok) return response;
      const text = await readErrorBody(response);
      const { status } = response;
      const refusal = refusalMessage(text);
      const sentImages =
        hasImages(request) && (forRequest.imageFault ?? this.#dialect.imageFault) === undefined;
      const isImageRefusal =
        sentImages && (status === 413 || (imageStatuses.has(status) && namesImages(refusal)));
      const isRefused = status === 400 || status === 422 || isImageRefusal;
      const adapted = isRefused ? adaptedDialect(this.#dialect, refusal, request) : undefined;
      if ((!adapted && !isImageRefusal) || requests === maxRequests)
        throw toAgentError(status, text, this.route.model, this.#gateway.key, response.headers);
      if (adapted) this.#dialect = adapted;
      else forRequest = { imageFault: 'the server of the model refused it' };
    }
  }

  async #post(dialect: Dialect, request: ChatModelRequest, signal: AbortSignal): Promise<Response> {
    const { url, key } = this.#gateway;
    const { path, headers, text } = buildRequest(dialect, request);
    try {
      return await fetch(`${url.replace(/\/+$/, '')}${path}`, {
        method: 'POST',
        headers: {
          ...providerHeaders(this.#wire, { apiKey: key, isCloudResource: false }, headers),
          'content-type': 'application/json',
          accept: 'text/event-stream',
          ...(request.traceparent === undefined ? {} : { traceparent: request.traceparent }),
        },
        body: text,
        // The key must not be sent to another address.
        redirect: 'error',
        signal,
      });
    } catch (error) {
      signal.throwIfAborted();
      throw connectionError(url, error);
    }
  }
}

/** Token usage; nothing when the counts are not safe integers. */
function toUsage(usage: Usage | undefined): Pick<Extract<ChatModelEvent, { type: 'end' }>, 'usage'> {
  if (!usage) return {};
  const { fresh, cacheWrite, cacheWrite1h, cacheRead, output: completionTokens } = usage;
  const promptTokens = fresh + cacheWrite + cacheWrite1h + cacheRead;
  const isCount = Number.isSafeInteger(promptTokens) && Number.isSafeInteger(completionTokens);
  return isCount ? { usage: { promptTokens, completionTokens } } : {};
}
