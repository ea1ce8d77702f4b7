import { isRecord, type Json } from '../../util/json.ts';
import type { AnswerEvent, FinishReason } from '../core/answer.ts';
import { StreamReader } from '../chat/reader.ts';
import { readUsage } from '../chat/usage.ts';
import type { AnswerMetadata } from '../core/wire.ts';

/** Number of answers that the response contains; `facts.answers` also counts those that `best_of` discards. */
export function returnedAnswers({ request: { body, facts } }: AnswerMetadata): number {
  const n = typeof body['n'] === 'number' ? body['n'] : 1;
  const bestOf = typeof body['best_of'] === 'number' ? body['best_of'] : 1;
  return (facts.answers / Math.max(n, bestOf)) * n;
}

/** Reads text completions; the events of all answers are merged into one. */
export class CompletionReader extends StreamReader {
  readonly #answerCount: number;
  readonly #finishedChoices = new Set<number>();
  #isFinishSent = false;
  #reason: FinishReason = 'stop';

  constructor(answerCount: number) {
    super();
    this.#answerCount = answerCount;
  }

  protected canBeginWith(chunk: Json): boolean {
    return hasText(chunk);
  }

  protected readChunk(chunk: Json, events: AnswerEvent[]): void {
    for (const choice of Array.isArray(chunk['choices']) ? (chunk['choices'] as unknown[]) : []) {
      if (!isRecord(choice)) continue;
      const { text, index, finish_reason: rawReason } = choice;
      if (typeof text === 'string' && text !== '') events.push({ type: 'text', text });
      if (typeof rawReason !== 'string' || rawReason === '') continue;
      this.#finishedChoices.add(typeof index === 'number' ? index : 0);
      if (rawReason === 'length' || rawReason === 'content_filter') this.#reason = rawReason;
    }
    const usage = readUsage(chunk['usage'], chunk['service_tier']);
    if (usage) events.push({ type: 'usage', usage });
    if (this.isFinished) events.push(...this.finalEvents());
  }

  protected finalEvents(): AnswerEvent[] {
    if (this.#isFinishSent) return [];
    this.#isFinishSent = true;
    return [{ type: 'finish', reason: this.#reason }];
  }

  protected get isFinished(): boolean {
    return this.#finishedChoices.size >= this.#answerCount;
  }
}

const hasText = ({ choices }: Json): boolean =>
  Array.isArray(choices) &&
  (choices as unknown[]).some(
    (choice) => isRecord(choice) && typeof choice['text'] === 'string' && choice['text'] !== '',
  );
