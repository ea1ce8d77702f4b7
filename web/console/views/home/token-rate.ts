/** A running total of tokens at a time (ms). */
export interface TokenCount {
  readonly timeMs: number;
  readonly tokens: number;
}

const windowMs = 10_000;

/** Appends a count and drops those older than ten seconds. Starts over when the host restarted. */
export function appendCount(counts: readonly TokenCount[], next: TokenCount): readonly TokenCount[] {
  const last = counts.at(-1);
  if (last && next.tokens < last.tokens) return [next];
  return [...counts.filter(({ timeMs }) => next.timeMs - timeMs <= windowMs), next];
}

/** Tokens per second between the first and the last count; undefined with fewer than two. */
export function tokenRate(counts: readonly TokenCount[]): number | undefined {
  const first = counts[0];
  const last = counts.at(-1);
  if (!first || !last || last.timeMs === first.timeMs) return undefined;
  return ((last.tokens - first.tokens) * 1000) / (last.timeMs - first.timeMs);
}
