/** One sequence on a runner, stepped directly without the scheduler: the logits of any steps. */
import type { Runner } from '../../src/engine/execution/runner.ts';
import { greedySampling, type Sampling } from '../../src/engine/types.ts';

export class RunnerSequence {
  readonly #runner: Runner;
  readonly #slot: number;
  /** Number of tokens written so far. */
  readonly ids: number[] = [];

  /** @param pages of the cache, in any order */
  constructor(runner: Runner, slot: number, pages: readonly number[]) {
    this.#runner = runner;
    this.#slot = slot;
    runner.setPages(slot, pages);
  }

  /** Appends tokens, at most `chunk` a step. @returns the logits after the last, [vocab] */
  async prefill(ids: readonly number[], chunk = ids.length): Promise<Float32Array> {
    const step = this.#runner.newStep();
    const first = this.ids.length;
    this.ids.push(...ids);
    for (let done = 0; done < ids.length; done += chunk) {
      const count = Math.min(chunk, ids.length - done);
      step.clear();
      const row = step.prefillTokens(this.ids, first + done, count, this.#slot);
      if (done + count === ids.length) {
        step.sample(row, this.#slot, this.ids.length, greedySampling);
        return onlyRow(await this.#runner.logits(step));
      }
      await this.#runner.submit(step);
    }
    throw new Error('a prompt has at least one token');
  }

  /** Appends one token as decoding does. @returns the logits after it, [vocab] */
  async decode(id: number, sampling: Sampling = greedySampling): Promise<Float32Array> {
    const step = this.#runner.newStep();
    step.clear();
    this.ids.push(id);
    const row = step.decodeToken(id, this.ids.length - 1, this.#slot);
    step.sample(row, this.#slot, this.ids.length, sampling);
    return onlyRow(await this.#runner.logits(step));
  }
}

function onlyRow(rows: Float32Array[]): Float32Array {
  const [row] = rows;
  if (!row) throw new Error('the step sampled nothing');
  return row;
}
