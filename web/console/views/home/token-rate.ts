/** A running total at a moment (ms). */
export interface Count {
  readonly at: number;
  readonly tokens: number;
}

const spanMs = 10_000;

/** The counts of the last ten seconds; of a host that was started anew, those since then. */
export function withCount(counts: readonly Count[], next: Count): readonly Count[] {
  const last = counts.at(-1);
  if (last && next.tokens < last.tokens) return [next];
  return [...counts.filter(({ at }) => next.at - at <= spanMs), next];
}

/** Tokens a second between the first and the last; undefined where there are no two. */
export function rateOf(counts: readonly Count[]): number | undefined {
  const first = counts[0];
  const last = counts.at(-1);
  if (!first || !last || last.at === first.at) return undefined;
  return ((last.tokens - first.tokens) * 1000) / (last.at - first.at);
}
