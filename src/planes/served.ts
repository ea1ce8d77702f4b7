/** Counters since start-up. A streamed completion counts as served but contributes no tokens: no zeros are invented. */
export class Served {
  readonly since = new Date();
  completions = 0;
  measuredCompletions = 0;
  promptTokens = 0;
  completionTokens = 0;

  streamed(): void {
    this.completions++;
  }

  buffered(usage: { prompt_tokens: number; completion_tokens: number }): void {
    this.completions++;
    this.measuredCompletions++;
    this.promptTokens += usage.prompt_tokens;
    this.completionTokens += usage.completion_tokens;
  }
}
