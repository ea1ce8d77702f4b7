import { readLogprobs } from '../../../kernels/logprobs.ts';
import type { TokenLogprob } from '../types.ts';

/** Results of a step: a token for each sample, and log probabilities and hidden states when any sample requests them. */
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

  /** @param id the sampled or scored token */
  logprob(sample: number, id: number): TokenLogprob {
    return { id, ...readLogprobs(this.#words.subarray(this.#samples), sample) };
  }

  /** @param width elements of a hidden state */
  hiddenState(sample: number, width: number): Float32Array {
    // Hidden states are the last part of the results.
    const first = this.#words.length - (this.#samples - sample) * width;
    const { buffer, byteOffset } = this.#words;
    return new Float32Array(buffer, byteOffset + first * 4, width).slice();
  }
}
