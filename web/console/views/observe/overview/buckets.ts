/** Maximum number of buckets of a chart. */
const maxBuckets = 2000;

/**
 * Starts of all buckets from the one of `fromMs` to that of `toMs`, in ms since the Unix epoch, in UTC. Buckets without
 * rows are missing in a result, but not in a chart.
 */
export function bucketStarts(fromMs: number, toMs: number, widthMs: number): number[] {
  const first = Math.floor(fromMs / widthMs) * widthMs;
  const last = Math.floor(toMs / widthMs) * widthMs;
  const count = Math.min(Math.max(0, Math.round((last - first) / widthMs)) + 1, maxBuckets);
  return Array.from({ length: count }, (_, index) => last - (count - 1 - index) * widthMs);
}

/** Values at the starts of buckets; `empty` where a bucket has none. */
export function valuesAt(
  starts: readonly number[],
  values: ReadonlyMap<number, number | null>,
  empty: number | null,
): (number | null)[] {
  return starts.map((start) => values.get(start) ?? empty);
}
