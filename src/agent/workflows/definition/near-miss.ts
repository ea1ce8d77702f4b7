/** The name that somebody may have meant, as a hint to put behind a message; empty where none is near. */
export function nearMiss(given: string, known: readonly string[]): string {
  const limit = Math.max(1, Math.floor(given.length / 3));
  let best: string | undefined;
  let least = limit + 1;
  for (const name of given.length > 64 ? [] : known) {
    const edits = distance(given.toLowerCase(), name.toLowerCase(), least);
    if (edits < least) [best, least] = [name, edits];
  }
  return best === undefined ? '' : `; did you mean '${best}'?`;
}

/** Letters to insert, drop or replace; some number from `limit` on where it is that many. */
function distance(a: string, b: string, limit: number): number {
  if (Math.abs(a.length - b.length) >= limit) return limit;
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const swap = (row[j - 1] ?? 0) + Number(a[i - 1] !== b[j - 1]);
      next.push(Math.min(swap, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? limit;
}
