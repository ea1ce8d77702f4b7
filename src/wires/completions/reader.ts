import { isRecord, type Json } from '../../util/json.ts';
import type { AnswerEvent, FinishReason } from '../core/answer.ts';
import { StreamReader } from '../chat/reader.ts';
import { readUsage } from '../chat/usage.ts';
import type { AnswerAbout } from '../core/wire.ts';

/** Number of answers that the response contains; `facts.answers` also counts those that `best_of` discards. */
export function answersOf({ request: { body, facts } }: AnswerAbout): number {
  const n = typeof body['n'] === 'number' ? body['n'] : 1;
  const bestOf = typeof body['best_of'] === 'number' ? body['best_of'] : 1;
  return (facts.answers / Math.max(n, bestOf)) * n;
}

/** Reads text completions; the events of all answers are merged into one. */
export class CompletionReader extends StreamReader {
  readonly #answers: number;
  readonly #finished = new Set<number>();
  #isTold = false;
  #reason: FinishReason = 'stop';

  constructor(answers: number) {
    super();
    this.#answers = answers;
  }

  protected begins(chunk: Json): boolean {
    return hasText(chunk);
  }

  protected chunk(chunk: Json, events: AnswerEvent[]): void {
    for (const choice of Array.isArray(chunk['choices']) ? (chunk['choices'] as unknown[]) : []) {
      if (!isRecord(choice)) continue;
      const { text, index, finish_reason: said } = choice;
      if (typeof text === 'string' && text !== '') events.push({ type: 'text', text });
      if (typeof said !== 'string' || said === '') continue;
      this.#finished.add(typeof index === 'number' ? index : 0);
      if (said === 'length' || said === 'content_filter') this.#reason = said;
    }
    const usage = readUsage(chunk['usage']);
    if (usage) events.push({ type: 'usage', usage });
    if (this.areFinished) events.push(...this.last());
  }

  protected last(): AnswerEvent[] {
    if (this.#isTold) return [];
    this.#isTold = true;
    return [{ type: 'finish', reason: this.#reason }];
  }

  protected get areFinished(): boolean {
    return this.#finished.size >= this.#answers;
  }
}

const hasText = ({ choices }: Json): boolean =>
  Array.isArray(choices) &&
  (choices as unknown[]).some(
    (choice) => isRecord(choice) && typeof choice['text'] === 'string' && choice['text'] !== '',
  );
