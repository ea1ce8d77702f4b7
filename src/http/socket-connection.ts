import type { WebSocket } from 'ws';
import { raceTimeout } from '../util/race-timeout.ts';
import { ClientGone, HttpError } from './error.ts';
import { bodyLimitBytes } from './route.ts';

/** How long a client may take to read a message, in ms. */
const stalledTimeoutMs = 60_000;
/** Interval of pings, in ms: a client that does not answer one before the next is gone. */
const pingIntervalMs = 30_000;
/** Turns that may wait for the current one, and the size of all their messages. */
const maxWaiting = 16;
const maxWaitingBytes = bodyLimitBytes;

/** Status codes of RFC 6455. */
const closeCodes = { normal: 1000, goingAway: 1001, policyViolation: 1008 } as const;

export interface ConnectionOptions {
  /** Answers a message. Never rejects. */
  readonly onMessage: (message: Buffer) => Promise<void>;
  /** The message for an error of the connection. */
  readonly writeRefusal: (error: HttpError) => string;
  readonly maxAgeMs: number;
}

/** An accepted WebSocket connection: its messages are answered one after the other. */
export class SocketConnection {
  readonly #socket: WebSocket;
  readonly #options: ConnectionOptions;
  readonly #closed = new AbortController();
  #lastTurn: Promise<void> = Promise.resolve();
  #openTurns = 0;
  #openBytes = 0;
  #isEnding = false;

  constructor(socket: WebSocket, options: ConnectionOptions) {
    this.#socket = socket;
    this.#options = options;
    let isAlive = true;
    const ping = setInterval(() => {
      if (!isAlive) socket.terminate();
      isAlive = false;
      socket.ping();
    }, pingIntervalMs).unref();
    const age = setTimeout(() => this.#expire(), options.maxAgeMs).unref();
    socket.on('pong', () => (isAlive = true));
    socket.on('error', () => socket.terminate());
    socket.on('message', (data) => this.#receive(data as Buffer));
    socket.once('close', () => {
      clearInterval(ping);
      clearTimeout(age);
      this.#closed.abort(new ClientGone());
    });
  }

  /** Aborted when the connection is closed. */
  get signal(): AbortSignal {
    return this.#closed.signal;
  }

  /** Resolves when the client has taken the message. Rejects where it does not. */
  async send(message: string): Promise<void> {
    this.signal.throwIfAborted();
    const sent = new Promise<void>((resolve, reject) => {
      this.#socket.send(message, (error) =>
        error ? reject(new ClientGone(undefined, { cause: error })) : resolve(),
      );
    });
    sent.catch(() => undefined);
    if ((await raceTimeout(sent, stalledTimeoutMs)) !== 'late') return;
    this.#socket.terminate();
    throw new HttpError(408, 'reader_stalled', 'The client stopped reading.');
  }

  /** Closes the connection after the current turn. */
  end(code: keyof typeof closeCodes): void {
    this.#isEnding = true;
    void this.#lastTurn.then(() => this.#socket.close(closeCodes[code]));
  }

  destroy(): void {
    this.#socket.terminate();
  }

  #receive(message: Buffer): void {
    if (this.#isEnding) return;
    const bytes = message.byteLength;
    const isFull =
      this.#openTurns > maxWaiting || (this.#openTurns > 0 && this.#openBytes + bytes > maxWaitingBytes);
    if (isFull) {
      const text = `More than ${maxWaiting} messages, or ${maxWaitingBytes} bytes, wait for their turn; wait for the answers.`;
      void this.#refuse(new HttpError(429, 'too_many_messages', text));
      return;
    }
    this.#openTurns++;
    this.#openBytes += bytes;
    this.#lastTurn = this.#lastTurn
      .then(() => this.#options.onMessage(message))
      .finally(() => {
        this.#openTurns--;
        this.#openBytes -= bytes;
      });
  }

  #expire(): void {
    this.#isEnding = true;
    this.#lastTurn = this.#lastTurn.then(() =>
      this.#refuse(
        new HttpError(
          400,
          'websocket_connection_limit_reached',
          'The connection has reached its time limit; open another one.',
        ),
      ),
    );
    this.end('normal');
  }

  /** A message that the client does not take is lost. */
  async #refuse(error: HttpError): Promise<void> {
    try {
      await this.send(this.#options.writeRefusal(error));
    } catch {
      // The client is gone.
    }
  }
}
