import { ChunkReader, parseFrame, isErrorChunk } from '../wires/chat/reader.ts';
import type { AnswerEvent } from '../wires/core/answer.ts';
import type { UpstreamModel, Usage } from '../wires/core/types.ts';
import { AgentError } from './errors.ts';
import { readFrames } from './gateway-chat-model/frames.ts';
import {
  interruptedError,
  toAgentError,
  readErrorBody,
  unreachableError,
  wantsMaxCompletionTokens,
} from './gateway-chat-model/errors.ts';
import { buildRequest, asReasoningModel, describeModel } from './gateway-chat-model/request.ts';
import type { ChatModel, ChatModelToolCall, ChatModelEvent, ChatModelRequest } from './chat-model.ts';

/** An OpenAI-compatible model server. */
export interface GatewayEndpoint {
  /** Base URL of its API: `https://host/v1`. */
  readonly url: string;
  /** API key; undefined when the server needs none. */
  readonly key?: string;
  /** Models that agents may use; undefined allows all. */
  readonly models?: readonly string[];
  /** Maximum time without data; default two minutes. */
  readonly timeoutMs?: number;
}

const defaultTimeoutMs = 120_000;

/** Chat model of a gateway, called with OpenAI's chat completions. Its errors never contain the key. */
export class GatewayChatModel implements ChatModel {
  readonly route;
  readonly #gateway: GatewayEndpoint;
  #model: UpstreamModel;

  constructor(gateway: GatewayEndpoint, model: string) {
    this.#gateway = gateway;
    this.#model = describeModel(model, gateway.url);
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
    const reader = new ChunkReader();
    const toolCalls = new Map<
      number,
      { -readonly [Member in keyof ChatModelToolCall]: ChatModelToolCall[Member] }
    >();
    let usage: Usage | undefined;
    let reason: Extract<AnswerEvent, { type: 'finish' }>['reason'] | undefined;
    for await (const frame of readFrames(response, onActivity)) {
      const payload = parseFrame(frame);
      // An answer is complete when its finish reason came, not with `[DONE]`; unreadable frames are skipped.
      if (typeof payload === 'string') continue;
      if (isErrorChunk(payload, frame.event))
        throw toAgentError(500, frame.data, this.route.model, this.#gateway.key);
      for (const event of reader.read(payload))
        switch (event.type) {
          case 'text':
          case 'refusal':
            yield { type: 'delta', text: event.text };
            break;
          case 'reasoning':
            yield { type: 'reasoning', text: event.text };
            break;
          case 'tool_call':
            toolCalls.set(event.index, { id: event.id, name: event.name, arguments: '' });
            break;
          case 'tool_arguments': {
            const call = toolCalls.get(event.index);
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
    for (const call of toolCalls.values()) yield { type: 'call', call };
    const finish = reason === 'length' ? 'length' : toolCalls.size > 0 ? 'tool_calls' : 'stop';
    yield { type: 'end', finish, ...toUsage(usage) };
  }

  /**
   * Retries once with `max_completion_tokens` when the server refuses `max_tokens`, and keeps that name from then on.
   */
  async #send(request: ChatModelRequest, signal: AbortSignal): Promise<Response> {
    const response = await this.#post(request, signal);
    if (response.ok) return response;
    const text = await readErrorBody(response);
    const reasoningVariant = asReasoningModel(this.#model);
    if (this.#model.family === reasoningVariant.family || !wantsMaxCompletionTokens(text))
      throw toAgentError(response.status, text, this.route.model, this.#gateway.key);
    this.#model = reasoningVariant;
    return this.#send(request, signal);
  }

  async #post(request: ChatModelRequest, signal: AbortSignal): Promise<Response> {
    const { url, key } = this.#gateway;
    const { path, headers, text } = buildRequest(this.#model, request);
    try {
      return await fetch(`${url.replace(/\/+$/, '')}${path}`, {
        method: 'POST',
        headers: {
          ...headers,
          'content-type': 'application/json',
          accept: 'text/event-stream',
          ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
          ...(request.traceparent === undefined ? {} : { traceparent: request.traceparent }),
        },
        body: text,
        // The key must not be sent to another address.
        redirect: 'error',
        signal,
      });
    } catch (error) {
      signal.throwIfAborted();
      throw unreachableError(url, error);
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
