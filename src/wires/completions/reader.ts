import { isRecord, type Json } from '../../util/json.ts';
import { WireError } from '../core/error.ts';
import type { AnswerEvent, FinishReason } from '../core/answer.ts';
import { AnswerIdentity } from '../core/answer-identity.ts';
import { faultWords, type Held, isFault } from '../chat/reader.ts';
import { readUsage } from '../chat/usage.ts';
import { faultInStream } from '../core/provider-faults.ts';
import type { AnswerAbout } from '../core/wire.ts';

/** The answers that come for a request; `facts.answers` also counts those that `best_of` throws away. */
export function answersOf({ request: { body, facts } }: AnswerAbout): number {
  const n = typeof body['n'] === 'number' ? body['n'] : 1;
  const bestOf = typeof body['best_of'] === 'number' ? body['best_of'] : 1;
  return (facts.answers / Math.max(n, bestOf)) * n;
}

/** What text completions say, all answers as one. */
export class CompletionReader {
  readonly #answers: number;
  readonly #finished = new Set<number>();
  readonly #identity = new AnswerIdentity();
  #begun = false;
  #done = false;
  #isTold = false;
  #failed = false;

  constructor(answers: number) {
    this.#answers = answers;
  }

  read(held: Held, event?: string): AnswerEvent[] {
    if (this.#failed || this.#done || held === 'nothing') return [];
    if (held === 'nonsense')
      return [this.#fail('The provider sent a chunk that is no JSON object; ask again.')];
    const events: AnswerEvent[] = [];
    let reason: FinishReason = 'stop';
    if (held === 'done') this.#done = true;
    else {
      if (isFault(held, event)) {
        this.#failed = true;
        const { error, again } = faultInStream(faultWords(held));
        return [{ type: 'failure', error, again }];
      }
      if (this.#identity.isOther(held['id'], hasText(held)))
        return [this.#fail('The provider began a second answer within its stream; ask again.')];
      if (!this.#begun)
        events.push({ type: 'start', ...(typeof held['id'] === 'string' ? { id: held['id'] } : {}) });
      this.#begun = true;
      for (const choice of Array.isArray(held['choices']) ? (held['choices'] as unknown[]) : []) {
        if (!isRecord(choice)) continue;
        const { text, index, finish_reason: said } = choice;
        if (typeof text === 'string' && text !== '') events.push({ type: 'text', text });
        if (typeof said !== 'string' || said === '') continue;
        this.#finished.add(typeof index === 'number' ? index : 0);
        if (said === 'length' || said === 'content_filter') reason = said;
      }
      const usage = readUsage(held['usage']);
      if (usage) events.push({ type: 'usage', usage });
    }
    if (this.#isWhole && !this.#isTold) {
      this.#isTold = true;
      events.push({ type: 'finish', reason });
    }
    return events;
  }

  /** `[DONE]` came: nothing after it is of this answer. */
  get isDone(): boolean {
    return this.#done;
  }

  get #isWhole(): boolean {
    return this.#begun && (this.#done || this.#finished.size >= this.#answers);
  }

  end(): AnswerEvent[] {
    if (this.#failed || this.#isWhole) return [];
    return [this.#fail("The provider's stream broke off before its end; ask again.")];
  }

  #fail(message: string): AnswerEvent {
    this.#failed = true;
    const error = new WireError(502, 'upstream_error', message, { code: 'upstream_failed' });
    return { type: 'failure', error, again: true };
  }
}

const hasText = ({ choices }: Json): boolean =>
  Array.isArray(choices) &&
  (choices as unknown[]).some(
    (choice) => isRecord(choice) && typeof choice['text'] === 'string' && choice['text'] !== '',
  );
