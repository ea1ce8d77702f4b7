import { sleep } from '../util/sleep.ts';
import { LatheError } from './transport.ts';

/** How long a lost connection is restored, and how long each try waits at most. */
const maxLostMs = 5 * 60_000;
const maxDelayMs = 5000;

/** Decides whether and when a lost connection is restored. */
export class Reconnect {
  readonly #signal: AbortSignal | undefined;
  readonly #maxLostMs: number;
  #failures = 0;
  #lostSince: number | undefined;

  /** @param lostMs how long it is tried */
  constructor(signal: AbortSignal | undefined, lostMs = maxLostMs) {
    this.#signal = signal;
    this.#maxLostMs = lostMs;
  }

  /** Something was received. */
  reset(): void {
    this.#failures = 0;
    this.#lostSince = undefined;
  }

  /** Waits before the next try. @throws the error, where trying again is no use; the signal's reason */
  async after(error: unknown): Promise<void> {
    this.#signal?.throwIfAborted();
    if (!(error instanceof LatheError && error.isTransient)) throw error;
    this.#lostSince ??= Date.now();
    if (Date.now() - this.#lostSince > this.#maxLostMs) throw error;
    this.#failures += 1;
    await sleep(Math.min(maxDelayMs, 100 * 2 ** this.#failures), this.#signal);
  }
}

/** Pieces of text of a response. @throws LatheError when it breaks off */
export async function* textOf(response: Response): AsyncGenerator<string, void, undefined> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (;;) {
      const chunk = await reader?.read().catch((cause: unknown) => {
        throw new LatheError('unreachable', 'the connection was lost', { cause });
      });
      if (!chunk || chunk.done) return;
      yield chunk.value;
    }
  } finally {
    reader?.cancel().catch(() => undefined);
  }
}
