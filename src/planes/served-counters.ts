import type { CompletionAttributes, TraceSink, TraceSpan } from '../tracing/index.ts';

/**
 * Counters since startup. Streamed completions are counted as served but contribute no tokens; unknown counts are not
 * added as zeros.
 */
export class ServedCounters implements TraceSink {
  readonly since = new Date();
  completions = 0;
  measuredCompletions = 0;
  promptTokens = 0;
  completionTokens = 0;

  onEnd({ kind, result: ending, attributes: facts }: TraceSpan): void {
    if (kind !== 'completion' || ending?.outcome !== 'ok') return;
    const { finish, stream, promptTokens, completionTokens } = facts as CompletionAttributes;
    // Embeddings and requests that only load a model have no finish reason.
    if (finish === undefined) return;
    this.completions++;
    if (stream) return;
    this.measuredCompletions++;
    this.promptTokens += promptTokens ?? 0;
    this.completionTokens += completionTokens ?? 0;
  }
}
