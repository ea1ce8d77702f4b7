import type { Dispatcher } from 'undici';
import { systemCode } from '../../util/system-code.ts';
import { AnswerBody, type AnswerLimits, type AnswerSource } from './answer-body.ts';
import type { ProviderFailures } from './provider-failures.ts';
import type { UpstreamReply } from './types.ts';
import type { UpstreamFailure } from '../../wires/core/upstream-failure.ts';
import { isCompressed, Decompressor } from './decompressor.ts';
import { AddressRefusedError } from './address-vetting.ts';

/** Limits and callbacks of one upstream request. */
export interface ExchangeContext {
  readonly limits: AnswerLimits;
  readonly failures: ProviderFailures;
  readonly signal: AbortSignal;
  /** Called once at the end, with the failure or undefined. */
  readonly onEnd: (failure: unknown) => void;
}

/** Assembles the head and the body of one answer from the events of a connection. */
export class UpstreamExchange {
  readonly #context: ExchangeContext;
  readonly #source: AnswerSource;
  readonly #body: AnswerBody;
  readonly #onAbort: () => void;
  readonly head: Promise<UpstreamReply>;
  #resolve!: (reply: UpstreamReply) => void;
  #reject!: (failure: unknown) => void;
  #decompressor: Decompressor | undefined;
  #hasHead = false;
  #isEnded = false;

  constructor(context: ExchangeContext, source: AnswerSource) {
    this.#context = context;
    const { limits, failures, signal, onEnd } = context;
    this.head = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.#onAbort = () => this.#body.fail(signal.reason);
    this.#source = source;
    const decodedSource: AnswerSource = {
      pause: () => (this.#decompressor ?? source).pause(),
      resume: () => (this.#decompressor ?? source).resume(),
      abort: () => (this.#decompressor ?? source).abort(),
    };
    this.#body = new AnswerBody(limits, failures, decodedSource, (failure) => {
      this.#isEnded = true;
      signal.removeEventListener('abort', this.#onAbort);
      if (!this.#hasHead) this.#reject(failure ?? failures.connectionLost());
      onEnd(failure);
    });
    if (signal.aborted) this.#onAbort();
    else signal.addEventListener('abort', this.#onAbort);
  }

  start(status: number, headers: Readonly<Record<string, string>>): void {
    const coding = headers['content-encoding'];
    if (isCompressed(coding)) {
      this.#decompressor = Decompressor.create(coding, this.#source);
      if (!this.#decompressor) {
        this.#body.fail(
          this.#context.failures.unreadable(`it has the unknown content-encoding '${coding.slice(0, 40)}'`),
        );
        return;
      }
      this.#decompressor.pipeTo(this.#body, this.#context.failures);
    }
    this.#hasHead = true;
    const body = this.#body;
    this.#resolve({
      status,
      headers,
      text: () => body.text({ isLenient: status >= 300 }),
      frames: () => body.frames(),
      cut: () => body.discard(),
    });
  }

  push(chunk: Buffer): void {
    (this.#decompressor ?? this.#body).push(chunk);
  }

  end(): void {
    (this.#decompressor ?? this.#body).end();
  }

  /** The connection failed or could not be established. */
  fail(error: unknown): void {
    // The gateway closed the connection itself.
    if (this.#isEnded) return;
    (this.#decompressor ?? this.#body).fail(this.#toFailure(error));
  }

  #toFailure(error: unknown): UpstreamFailure {
    const { failures } = this.#context;
    if (error instanceof AddressRefusedError)
      return failures.unusable(`its base URL is not allowed. ${error.message}`, error);
    if (systemCode(error) === 'UND_ERR_INVALID_ARG')
      return failures.unusable('a header is invalid; check the credential.');
    return this.#hasHead ? failures.connectionLost(error) : failures.unreachable(error);
  }
}

/** Sends one request over a pooled connection. Its bytes go straight into the body, without a stream in between. */
export function sendRequest(
  dispatcher: Dispatcher,
  options: Dispatcher.DispatchOptions,
  context: ExchangeContext,
): Promise<UpstreamReply> {
  let controller: Dispatcher.DispatchController | undefined;
  let aborted = false;
  const exchange = new UpstreamExchange(context, {
    pause: () => controller?.pause(),
    resume: () => controller?.resume(),
    abort: () => {
      aborted = true;
      controller?.abort(new Error('aborted'));
    },
  });
  if (aborted) return exchange.head;
  const handler: Dispatcher.DispatchHandler = {
    onRequestStart(started) {
      controller = started;
      // Aborted while the connection was being established.
      if (aborted) started.abort(new Error('aborted'));
    },
    onResponseStart(_, status, headers) {
      if (status >= 200) exchange.start(status, joinHeaders(headers));
    },
    onResponseData: (_, chunk) => exchange.push(chunk),
    onResponseEnd: () => exchange.end(),
    onResponseError: (_, error) => exchange.fail(error),
  };
  try {
    dispatcher.dispatch(options, handler);
  } catch (error) {
    exchange.fail(error);
  }
  return exchange.head;
}

function joinHeaders(
  headers: Readonly<Record<string, string | readonly string[] | undefined>>,
): Record<string, string> {
  const all: Record<string, string> = {};
  for (const name in headers) {
    const value = headers[name];
    if (value !== undefined) all[name] = typeof value === 'string' ? value : value.join(', ');
  }
  return all;
}
