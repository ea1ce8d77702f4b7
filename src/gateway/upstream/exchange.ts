import type { Dispatcher } from 'undici';
import { systemCode } from '../../util/system-code.ts';
import { AnswerBody, type AnswerLimits, type BodySource } from './answer-body.ts';
import type { ProviderFaults } from './faults.ts';
import type { UpstreamReply } from './types.ts';
import type { UpstreamFailure } from '../../wires/core/upstream-failure.ts';
import { isPacked, Unpacking } from './unpacking.ts';
import { AddressRefused } from './vetting.ts';

/** Limits and callbacks of one upstream request. */
export interface ExchangeContext {
  readonly limits: AnswerLimits;
  readonly faults: ProviderFaults;
  readonly signal: AbortSignal;
  /** Called once at the end, with the failure or undefined. */
  readonly settled: (failure: unknown) => void;
}

/** Assembles the head and the body of one answer from the events of a connection. */
export class Exchange {
  readonly #context: ExchangeContext;
  readonly #source: BodySource;
  readonly #body: AnswerBody;
  readonly #giveUp: () => void;
  readonly head: Promise<UpstreamReply>;
  #resolve!: (reply: UpstreamReply) => void;
  #reject!: (failure: unknown) => void;
  #unpacking: Unpacking | undefined;
  #begun = false;
  #over = false;

  constructor(context: ExchangeContext, source: BodySource) {
    this.#context = context;
    const { limits, faults, signal, settled } = context;
    this.head = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.#giveUp = () => this.#body.break(signal.reason);
    this.#source = source;
    const unpacked: BodySource = {
      pause: () => (this.#unpacking ?? source).pause(),
      resume: () => (this.#unpacking ?? source).resume(),
      abort: () => (this.#unpacking ?? source).abort(),
    };
    this.#body = new AnswerBody(limits, faults, unpacked, (failure) => {
      this.#over = true;
      signal.removeEventListener('abort', this.#giveUp);
      if (!this.#begun) this.#reject(failure ?? faults.brokeOff());
      settled(failure);
    });
    if (signal.aborted) this.#giveUp();
    else signal.addEventListener('abort', this.#giveUp);
  }

  begin(status: number, headers: Readonly<Record<string, string>>): void {
    const coding = headers['content-encoding'];
    if (isPacked(coding)) {
      this.#unpacking = Unpacking.of(coding, this.#source);
      if (!this.#unpacking) {
        this.#body.break(
          this.#context.faults.nonsense(`it has the unknown content-encoding '${coding.slice(0, 40)}'`),
        );
        return;
      }
      this.#unpacking.into(this.#body, this.#context.faults);
    }
    this.#begun = true;
    const body = this.#body;
    this.#resolve({
      status,
      headers,
      text: () => body.text({ lenient: status >= 300 }),
      frames: () => body.frames(),
      cut: () => body.cut(),
    });
  }

  push(chunk: Buffer): void {
    (this.#unpacking ?? this.#body).push(chunk);
  }

  end(): void {
    (this.#unpacking ?? this.#body).end();
  }

  /** The connection failed or could not be established. */
  fail(error: unknown): void {
    // The gateway closed the connection itself.
    if (this.#over) return;
    (this.#unpacking ?? this.#body).break(this.#failure(error));
  }

  #failure(error: unknown): UpstreamFailure {
    const { faults } = this.#context;
    if (error instanceof AddressRefused)
      return faults.unusable(`its base URL is not allowed. ${error.message}`, error);
    if (systemCode(error) === 'UND_ERR_INVALID_ARG')
      return faults.unusable('a header is invalid; check the credential.');
    return this.#begun ? faults.brokeOff(error) : faults.unreachable(error);
  }
}

/** Sends one request over a pooled connection. Its bytes go straight into the body, without a stream in between. */
export function ask(
  dispatcher: Dispatcher,
  options: Dispatcher.DispatchOptions,
  context: ExchangeContext,
): Promise<UpstreamReply> {
  let controller: Dispatcher.DispatchController | undefined;
  let aborted = false;
  const exchange = new Exchange(context, {
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
      if (status >= 200) exchange.begin(status, flat(headers));
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

function flat(
  headers: Readonly<Record<string, string | readonly string[] | undefined>>,
): Record<string, string> {
  const all: Record<string, string> = {};
  for (const name in headers) {
    const value = headers[name];
    if (value !== undefined) all[name] = typeof value === 'string' ? value : value.join(', ');
  }
  return all;
}
