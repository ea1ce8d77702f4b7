import { WireError } from '../../wires/core/error.ts';

/** Of bodies as large as they may be: what one key may have on the way at a time. */
const mostBodies = 4;

/** Bodies are in memory before anybody knows whether their sender can pay: so that no key fills it, each has its share. */
export class BodyShares {
  readonly #most: number;
  readonly #bytes = new Map<string, number>();

  /** @param largest that a body may be, in bytes */
  constructor(largest: number) {
    this.#most = mostBodies * largest;
  }

  /** For the time of reading one body. */
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
  /** So many bytes came. @throws WireError 429 */
  readonly take: (bytes: number) => void;
  readonly close: () => void;
}

const tooMany = (): WireError =>
  new WireError(
    429,
    'rate_limit_error',
    'Too many large bodies of this API key are on the way at a time; send them one after the other.',
    { code: 'rate_limit_exceeded', headers: { 'retry-after': '1' } },
  );
