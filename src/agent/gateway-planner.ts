import { ChunkReader, heldIn, isFault } from '../wires/chat/reader.ts';
import type { AnswerEvent } from '../wires/core/answer.ts';
import type { UpstreamModel, Usage } from '../wires/core/types.ts';
import { AgentError } from './errors.ts';
import { framesOf } from './gateway-planner/frames.ts';
import { brokeOff, refusal, refusalText, unreachable, wantsNewerLimit } from './gateway-planner/refusals.ts';
import { asked, reasoningModel, unknownModel } from './gateway-planner/request.ts';
import type { Planner, PlannerCall, PlannerEvent, PlannerRequest } from './planner.ts';

/** An OpenAI-compatible server of models. */
export interface Gateway {
  /** Of its wire: `https://host/v1`. */
  readonly url: string;
  /** Undefined: it wants none. */
  readonly key?: string;
  /** Those that agents may have; undefined: whatever it has. */
  readonly models?: readonly string[];
  /** How long it may say nothing; default two minutes. */
  readonly timeoutMs?: number;
}

const defaultTimeoutMs = 120_000;

/** A model of a gateway, by OpenAI's chat completions. What goes wrong never names the key. */
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
      `The gateway said nothing for ${ms / 1000} s; [gateway] timeout_secs in the configuration gives it longer.`,
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
      // `[DONE]` does not make an answer whole, its reason does; what cannot be read is nothing.
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

  /** Refused for the name of its limit, a request goes out once more; from then on all have the other name. */
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
        // A key goes nowhere but where it was meant for.
        redirect: 'error',
        signal,
      });
    } catch (error) {
      signal.throwIfAborted();
      throw unreachable(url, error);
    }
  }
}

/** Nothing where the counts are none that can be added up. */
function counted(usage: Usage | undefined): Pick<Extract<PlannerEvent, { type: 'end' }>, 'usage'> {
  if (!usage) return {};
  const { fresh, cacheWrite, cacheWrite1h, cacheRead, output: completionTokens } = usage;
  const promptTokens = fresh + cacheWrite + cacheWrite1h + cacheRead;
  const isCount = Number.isSafeInteger(promptTokens) && Number.isSafeInteger(completionTokens);
  return isCount ? { usage: { promptTokens, completionTokens } } : {};
}
