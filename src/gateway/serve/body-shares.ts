import { WireError } from '../../wires/core/error.ts';

/** The memory of one key's unfinished bodies, as a multiple of the largest allowed body. */
const mostBodies = 4;

/** Bounds the memory that the bodies of one key take: bodies are buffered before the caller's balance is checked. */
export class BodyShares {
  readonly #most: number;
  readonly #bytes = new Map<string, number>();

  /** @param maxBodyBytes size of the largest allowed body */
  constructor(largest: number) {
    this.#most = mostBodies * largest;
  }

  /** Starts to count one body. Call `close` of the result when the body is read. */
  open(key: string): BodyShare {
    let own = 0;
    const change = (bytes: number) => {
      own += bytes;
      const all = (this.#bytes.get(key) ?? 0) + bytes;
      if (all > 0) this.#bytes.set(key, all);
      else this.#bytes.delete(key);
      return all;
    };
    return {
      take: (bytes) => {
        if (change(bytes) > this.#most) throw tooMany();
      },
      close: () => void change(-own),
    };
  }
}

export interface BodyShare {
  /** Counts bytes of the body that arrived. @throws WireError 429 when the key is over its limit */
  readonly take: (bytes: number) => void;
  readonly close: () => void;
}

const tooMany = (): WireError =>
  new WireError(
    429,
    'rate_limit_error',
    'This API key is sending too many large bodies at the same time; send them one after another.',
    { code: 'rate_limit_exceeded', headers: { 'retry-after': '1' } },
  );
