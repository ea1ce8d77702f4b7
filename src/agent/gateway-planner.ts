import { AgentError } from './errors.ts';
import { CompletionReader } from './gateway-planner/completion-reader.ts';
import { asked } from './gateway-planner/request-body.ts';
import { refusal, unreachable } from './gateway-planner/refusals.ts';
import { sseData, wholeText } from './gateway-planner/sse.ts';
import type { Planner, PlannerEvent, PlannerRequest } from './planner.ts';

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

  constructor(gateway: Gateway, model: string) {
    this.#gateway = gateway;
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
    const { key } = this.#gateway;
    const response = await this.#post(request, key, signal);
    if (!response.ok) throw await refusal(response, this.route.model, key);
    const reader = new CompletionReader(this.route.model, key);
    for await (const data of this.#data(response, heard)) yield* reader.push(data);
    yield* reader.end();
  }

  async #post(request: PlannerRequest, key: string | undefined, signal: AbortSignal): Promise<Response> {
    try {
      return await fetch(`${this.#gateway.url.replace(/\/+$/, '')}/chat/completions`, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          accept: 'text/event-stream',
          ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
          ...(request.traceparent === undefined ? {} : { traceparent: request.traceparent }),
        },
        body: JSON.stringify(asked(this.route.model, request)),
        // A key goes nowhere but where it was meant for.
        redirect: 'error',
        signal,
      });
    } catch (error) {
      signal.throwIfAborted();
      throw unreachable(this.#gateway.url, error);
    }
  }

  async *#data(response: Response, heard: () => void): AsyncGenerator<string, void, undefined> {
    if (!response.body) return;
    const body = told(response.body, heard);
    try {
      // A server that knows no streams answers with one body, which reads like a single chunk.
      if (response.headers.get('content-type')?.includes('json')) yield await wholeText(body);
      else yield* sseData(body);
    } catch (error) {
      if (error instanceof AgentError) throw error;
      throw new AgentError('unavailable', 'gateway_broke_off', 'The gateway broke off its answer.', {
        cause: error,
      });
    }
  }
}

/** Whatever comes is a sign of life, also what is no data: some send comments while a request waits for its turn. */
async function* told(
  body: ReadableStream<Uint8Array>,
  heard: () => void,
): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const chunk of body) {
    heard();
    yield chunk;
  }
}
