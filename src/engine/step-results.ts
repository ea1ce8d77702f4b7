import { readLogprobs } from '../../kernels/logprobs.ts';
import type { TokenLogprob } from './types.ts';

/** What a step gave: a token for each of its samples, and their log probabilities where any asked for them. */
export class StepResults {
  readonly #words: Uint32Array;
  readonly #samples: number;

  /** @param words see `Runner.submit` */
  constructor(words: Uint32Array, samples: number) {
    this.#words = words;
    this.#samples = samples;
  }

  token(sample: number): number {
    return this.#words[sample] as number;
  }

  /** @param id the token that was drawn, or scored */
  logprob(sample: number, id: number): TokenLogprob {
    return { id, ...readLogprobs(this.#words.subarray(this.#samples), sample) };
  }
}
