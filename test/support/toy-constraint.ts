/** An arithmetic grammar: the allowed tokens depend on every earlier token. */
import { maskWords } from '../../kernels/sample.ts';
import type { Constraint } from '../../src/engine/types.ts';

/** The tokens allowed after an output so far; undefined for all. */
export type ToyGrammar = (answer: readonly number[]) => Uint32Array | undefined;

const vocabulary = 259;
const endToken = 257;

/** A few letters determined by the text so far, and sometimes the end; sometimes all tokens. */
export const toyGrammar =
  (seed: number): ToyGrammar =>
  (answer) => {
    let state = answer.reduce((sum, id) => Math.imul(sum ^ id, 0x9e3779b1) >>> 7, seed + 1);
    if (state % 5 === 0) return undefined;
    const mask = new Uint32Array(maskWords(vocabulary));
    const allow = (id: number) => (mask[id >> 5] = (mask[id >> 5] as number) | (1 << (id & 31)));
    for (let n = 0; n < 3; n++) {
      state = Math.imul(state + n + 1, 0x85ebca6b) >>> 0;
      allow(97 + (state % 12));
    }
    if (state % 7 === 0) allow(endToken);
    return mask;
  };

/** Applies a grammar to one output, and checks how it is called. */
export class ToyConstraint implements Constraint {
  readonly accepted: number[] = [];
  calls = 0;
  closed = 0;
  readonly #grammar: ToyGrammar;
  readonly #turns: number;
  #pending = false;

  /** @param turns event-loop turns that a mask takes */
  constructor(grammar: ToyGrammar, turns = 0) {
    this.#grammar = grammar;
    this.#turns = turns;
  }

  async next(accepted: readonly number[]): Promise<Uint32Array | undefined> {
    if (this.closed > 0) throw new Error('asked after it was closed');
    if (this.#pending) throw new Error('asked before it has answered');
    this.#pending = true;
    this.calls += 1;
    this.accepted.push(...accepted);
    for (let n = 0; n < this.#turns; n++) await new Promise((resolve) => setImmediate(resolve));
    this.#pending = false;
    return this.#grammar(this.accepted);
  }

  close(): void {
    this.closed += 1;
  }
}
