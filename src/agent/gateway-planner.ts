import { ChunkReader, heldIn, isFault } from '../wires/chat/reader.ts';
import type { AnswerEvent } from '../wires/core/answer.ts';
import type { UpstreamModel, Usage } from '../wires/core/types.ts';
import { AgentError } from './errors.ts';
import { framesOf } from './gateway-planner/frames.ts';
import { brokeOff, refusal, refusalText, unreachable, wantsNewerLimit } from './gateway-planner/refusals.ts';
import { asked, reasoningModel, unknownModel } from './gateway-planner/request.ts';
import type { Planner, PlannerCall, PlannerEvent, PlannerRequest } from './planner.ts';

/** An OpenAI-compatible model server. */
export interface Gateway {
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
export class GatewayPlanner implements Planner {
  readonly route;
  readonly #gateway: Gateway;
  #model: UpstreamModel;

  constructor(gateway: Gateway, model: string) {
    this.#gateway = gateway;
    this.#model = unknownModel(model, gateway.url);
    this.route = { engine: 'gateway' as const, model };
  }

  async *answer(request: PlannerRequest, signal: AbortSignal): AsyncGenerator<PlannerEvent, void, undefined> {
    const leaving = new AbortController();
    const either = AbortSignal.any([signal, leaving.signal]);
    const ms = this.#gateway.timeoutMs ?? defaultTimeoutMs;
    const silent = new AgentError(
      'unavailable',
      'gateway_timeout',
      `The gateway sent nothing for ${ms / 1000} s. To wait longer, raise [gateway] timeout_secs in the configuration.`,
    );
    let timer: NodeJS.Timeout | undefined;
    const heard = () => {
      clearTimeout(timer);
      timer = setTimeout(() => leaving.abort(silent), ms);
    };
    heard();
    try {
      yield* this.#events(request, either, heard);
    } catch (error) {
      signal.throwIfAborted();
      throw leaving.signal.aborted ? silent : error;
    } finally {
      clearTimeout(timer);
      leaving.abort();
    }
  }

  async *#events(
    request: PlannerRequest,
    signal: AbortSignal,
    heard: () => void,
  ): AsyncGenerator<PlannerEvent, void, undefined> {
    const response = await this.#ask(request, signal);
    const reader = new ChunkReader();
    const calls = new Map<number, { -readonly [Member in keyof PlannerCall]: PlannerCall[Member] }>();
    let usage: Usage | undefined;
    let reason: Extract<AnswerEvent, { type: 'finish' }>['reason'] | undefined;
    for await (const frame of framesOf(response, heard)) {
      const held = heldIn(frame);
      // An answer is complete when its finish reason came, not with `[DONE]`; unreadable frames are skipped.
      if (typeof held === 'string') continue;
      if (isFault(held, frame.event)) throw refusal(500, frame.data, this.route.model, this.#gateway.key);
      for (const event of reader.read(held))
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
            throw brokeOff(event.error);
          default:
        }
    }
    if (reason === undefined) throw brokeOff();
    for (const call of calls.values()) yield { type: 'call', call };
    const finish = reason === 'length' ? 'length' : calls.size > 0 ? 'tool_calls' : 'stop';
    yield { type: 'end', finish, ...counted(usage) };
  }

  /**
   * Retries once with `max_completion_tokens` when the server refuses `max_tokens`, and keeps that name from then on.
   */
  async #ask(request: PlannerRequest, signal: AbortSignal): Promise<Response> {
    const response = await this.#post(request, signal);
    if (response.ok) return response;
    const text = await refusalText(response);
    const other = reasoningModel(this.#model);
    if (this.#model.family === other.family || !wantsNewerLimit(text))
      throw refusal(response.status, text, this.route.model, this.#gateway.key);
    this.#model = other;
    return this.#ask(request, signal);
  }

  async #post(request: PlannerRequest, signal: AbortSignal): Promise<Response> {
    const { url, key } = this.#gateway;
    const { path, headers, text } = asked(this.#model, request);
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
      throw unreachable(url, error);
    }
  }
}

/** Token usage; nothing when the counts are not safe integers. */
function counted(usage: Usage | undefined): Pick<Extract<PlannerEvent, { type: 'end' }>, 'usage'> {
  if (!usage) return {};
  const { fresh, cacheWrite, cacheWrite1h, cacheRead, output: completionTokens } = usage;
  const promptTokens = fresh + cacheWrite + cacheWrite1h + cacheRead;
  const isCount = Number.isSafeInteger(promptTokens) && Number.isSafeInteger(completionTokens);
  return isCount ? { usage: { promptTokens, completionTokens } } : {};
}
