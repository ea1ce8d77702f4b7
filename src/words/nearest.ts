/** Of a mistyped word, as much as is compared. */
const longest = 64;

/** The known word nearest to a mistyped one, or nothing when none is near. Of several as near, the first. */
export function nearest(word: string, known: readonly string[]): string | undefined {
  const typed = word.toLowerCase().slice(0, longest);
  const most = Math.max(1, Math.floor(typed.length / 3));
  let best: string | undefined;
  let least = most + 1;
  for (const candidate of known) {
    const edits = editsTo(typed, candidate.toLowerCase(), least);
    if (edits < least) [best, least] = [candidate, edits];
  }
  return best;
}

/** ` (did you mean 'x'?)`, or nothing. */
export function didYouMean(word: string, known: readonly string[], show: (name: string) => string): string {
  const near = nearest(word, known);
  return near === undefined ? '' : ` (did you mean ${show(near)}?)`;
}

/** The beginning of a word is one slip away from it. From `limit` on, how many edits there are does not matter. */
function editsTo(typed: string, candidate: string, limit: number): number {
  if (typed.length > 2 && candidate.startsWith(typed)) return typed === candidate ? 0 : 1;
  return Math.abs(typed.length - candidate.length) >= limit ? limit : distance(typed, candidate);
}

/** Edits (insert, delete, replace, swap of neighbours) that turn one word into the other. */
function distance(from: string, to: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (let row = 1; row <= from.length; row++) {
    const current = [row];
    for (let column = 1; column <= to.length; column++) {
      const same = from[row - 1] === to[column - 1];
      let cost = Math.min(
        (last[column] ?? 0) + 1,
        (current[column - 1] ?? 0) + 1,
        (last[column - 1] ?? 0) + (same ? 0 : 1),
      );
      const swapped = from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1];
      if (swapped && row > 1 && column > 1) cost = Math.min(cost, (beforeLast[column - 2] ?? 0) + 1);
      current.push(cost);
    }
    beforeLast = last;
    last = current;
  }
  return last[to.length] ?? 0;
}
