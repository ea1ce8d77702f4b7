import { WireError } from '../../wires/core/error.ts';

/** The memory of one key's unfinished bodies, as a multiple of the largest allowed body. */
const maxBodies = 4;

/** Bounds the memory that the bodies of one key take: bodies are buffered before the caller's balance is checked. */
export class BodyMemoryLimiter {
  readonly #maxBytes: number;
  readonly #bytes = new Map<string, number>();

  /** @param maxBodyBytes size of the largest allowed body */
  constructor(maxBodyBytes: number) {
    this.#maxBytes = maxBodies * maxBodyBytes;
  }

  /** Starts to count one body. Call `close` of the result when the body is read. */
  open(key: string): BodyMemoryLease {
    let ownBytes = 0;
    const addBytes = (bytes: number) => {
      ownBytes += bytes;
      const totalBytes = (this.#bytes.get(key) ?? 0) + bytes;
      if (totalBytes > 0) this.#bytes.set(key, totalBytes);
      else this.#bytes.delete(key);
      return totalBytes;
    };
    return {
      take: (bytes) => {
        if (addBytes(bytes) > this.#maxBytes) throw tooManyBodiesError();
      },
      close: () => void addBytes(-ownBytes),
    };
  }
}

export interface BodyMemoryLease {
  /** Counts bytes of the body that arrived. @throws WireError 429 when the key is over its limit */
  readonly take: (bytes: number) => void;
  readonly close: () => void;
}

const tooManyBodiesError = (): WireError =>
  new WireError(
    429,
    'rate_limit_error',
    'This API key is sending too many large bodies at the same time; send them one after another.',
    { code: 'rate_limit_exceeded', headers: { 'retry-after': '1' } },
  );
