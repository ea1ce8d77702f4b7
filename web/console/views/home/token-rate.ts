/** A running total of tokens at a time (ms). */
export interface Count {
  readonly at: number;
  readonly tokens: number;
}

const spanMs = 10_000;

/** Appends a count and drops those older than ten seconds. Starts over when the host restarted. */
export function withCount(counts: readonly Count[], next: Count): readonly Count[] {
  const last = counts.at(-1);
  if (last && next.tokens < last.tokens) return [next];
  return [...counts.filter(({ at }) => next.at - at <= spanMs), next];
}

/** Tokens per second between the first and the last count; undefined with fewer than two. */
export function rateOf(counts: readonly Count[]): number | undefined {
  const first = counts[0];
  const last = counts.at(-1);
  if (!first || !last || last.at === first.at) return undefined;
  return ((last.tokens - first.tokens) * 1000) / (last.at - first.at);
}
