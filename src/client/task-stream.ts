import { Reconnect, textOf } from './reconnect.ts';
import { errorOf, LatheError, type Transport } from './transport.ts';
import type { TaskDetail, TurnEvent } from './types.ts';

type FinalEvent = Extract<TurnEvent, { type: 'answer' | 'aborted' }>;

/** The task ended without an answer. */
export class TaskAborted extends Error {
  readonly reason: Extract<TurnEvent, { type: 'aborted' }>['reason'];
  constructor({ reason, message }: Extract<TurnEvent, { type: 'aborted' }>) {
    super(message);
    this.name = 'TaskAborted';
    this.reason = reason;
  }
}

/**
 * The events of a task, from its start or from a message to the end of that part. Each event comes once and in order: a
 * lost connection is restored, also over a restart of the host. Leaving the loop does not stop the task, and another loop
 * goes on where it was left. A loop after the end gives all of them again.
 */
export class TaskStream implements AsyncIterable<TurnEvent> {
  readonly id: string;
  /** Store session of the task and the credential that revokes it; absent on a stream that only reads. */
  readonly session: { readonly id: string; readonly secret: string } | undefined;
  readonly #transport: Transport;
  readonly #signal: AbortSignal | undefined;
  readonly #repeat: (() => Promise<Response>) | undefined;
  /** The response that the events come from first. */
  #response: Response | undefined;
  #last: number;
  /** Before the first event that was read. */
  #start: number | undefined;
  #hasEnd = false;
  #end: FinalEvent | undefined;

  constructor(
    transport: Transport,
    id: string,
    options: {
      readonly response?: Response;
      /** Sends the request again, which replays its part: while no event of it is known. */
      readonly repeat?: (() => Promise<Response>) | undefined;
      /** The last `seq` that is known. */
      readonly after?: number;
      readonly signal?: AbortSignal | undefined;
    },
  ) {
    this.#transport = transport;
    this.id = id;
    this.#response = options.response;
    this.#last = options.after ?? -1;
    this.#signal = options.signal;
    this.#repeat = options.repeat;
    const sessionId = options.response?.headers.get('x-svc-session');
    const secret = options.response?.headers.get('x-svc-session-secret');
    this.session = sessionId && secret ? { id: sessionId, secret } : undefined;
  }

  /**
   * The text of the answer; reads what has not been read.
   * @throws TaskAborted
   */
  async answer(): Promise<string> {
    if (!this.#hasEnd) for await (const _ of this);
    if (this.#end?.type === 'answer') return this.#end.text;
    if (this.#end) throw new TaskAborted(this.#end);
    throw new LatheError('incomplete', `the events of ${this.id} ended without an end`);
  }

  /** @throws LatheError when the connection cannot be restored; the signal's reason */
  async *[Symbol.asyncIterator](): AsyncGenerator<TurnEvent, void, undefined> {
    if (this.#hasEnd) this.#last = this.#start ?? this.#last;
    this.#hasEnd = false;
    const reconnect = new Reconnect(this.#signal);
    for (;;) {
      try {
        const response = this.#response ?? (await this.#reconnect());
        this.#response = undefined;
        for await (const event of linesOf(response)) {
          reconnect.reset();
          if (event.seq <= this.#last) continue;
          this.#start ??= event.seq - 1;
          this.#last = event.seq;
          if (event.type === 'answer' || event.type === 'aborted') this.#end = event;
          this.#hasEnd = event === this.#end;
          yield event;
          if (this.#hasEnd) return;
        }
        this.#hasEnd = await this.#isOver();
        if (this.#hasEnd) return;
        // The stream ended before the task: its host stops, or another one runs it.
        throw new LatheError('unreachable', `the stream of ${this.id} ended early`);
      } catch (error) {
        await reconnect.after(error);
      }
    }
  }

  /** Whether the task has ended, and there is nothing after what was read. */
  async #isOver(): Promise<boolean> {
    const { state, last_seq: last } = await this.#transport.json<TaskDetail>(
      'GET',
      `/tasks/${encodeURIComponent(this.id)}`,
      {
        signal: this.#signal,
      },
    );
    return state !== 'running' && this.#last >= last;
  }

  async #reconnect(): Promise<Response> {
    const signal = this.#signal;
    if (this.#start === undefined && this.#last < 0 && this.#repeat) return await this.#repeat();
    return await this.#transport.send(
      'GET',
      `/tasks/${encodeURIComponent(this.id)}/events?after=${this.#last}`,
      {
        signal,
      },
    );
  }
}

/** The events of a response. @throws LatheError when it breaks off, or ends with an error */
export async function* linesOf(response: Response): AsyncGenerator<TurnEvent, void, undefined> {
  let text = '';
  for await (const piece of textOf(response)) {
    text += piece;
    const lines = text.split('\n');
    text = lines.pop() ?? '';
    for (const line of lines) if (line !== '') yield eventOf(line);
  }
}

function eventOf(line: string): TurnEvent {
  const event = JSON.parse(line) as TurnEvent;
  if ('seq' in event) return event;
  const { code = 'error', message = 'the host failed' } = errorOf(line) ?? {};
  throw new LatheError(code, message, { status: 503 });
}
