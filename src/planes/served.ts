import type { CompletionFacts, Sink, Work } from '../watch/index.ts';

/** Counters since start-up. A streamed completion counts as served but contributes no tokens: no zeros are invented. */
export class Served implements Sink {
  readonly since = new Date();
  completions = 0;
  measuredCompletions = 0;
  promptTokens = 0;
  completionTokens = 0;

  ended({ kind, ending, facts }: Work): void {
    if (kind !== 'completion' || ending?.outcome !== 'ok') return;
    const { finish, stream, promptTokens, completionTokens } = facts as CompletionFacts;
    // Embeddings have none, nor has a request that only loads a model.
    if (finish === undefined) return;
    this.completions++;
    if (stream) return;
    this.measuredCompletions++;
    this.promptTokens += promptTokens ?? 0;
    this.completionTokens += completionTokens ?? 0;
  }
}
