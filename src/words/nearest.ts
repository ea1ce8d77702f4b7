/** Maximum number of characters of the mistyped word that are compared. */
const maxLength = 64;

/** The known word with the smallest edit distance to a mistyped one; undefined if none is close. Ties: the first. */
export function nearestWord(word: string, known: readonly string[]): string | undefined {
  const typed = word.toLowerCase().slice(0, maxLength);
  const maxEdits = Math.max(1, Math.floor(typed.length / 3));
  let best: string | undefined;
  let bestDistance = maxEdits + 1;
  for (const candidate of known) {
    const edits = boundedDistance(typed, candidate.toLowerCase(), bestDistance);
    if (edits < bestDistance) [best, bestDistance] = [candidate, edits];
  }
  return best;
}

/** ` (did you mean 'x'?)`, or an empty string. */
export function didYouMean(word: string, known: readonly string[], show: (name: string) => string): string {
  const near = nearestWord(word, known);
  return near === undefined ? '' : ` (did you mean ${show(near)}?)`;
}

/** Edit distance up to `limit`. A prefix of a word counts as one edit. */
function boundedDistance(typed: string, candidate: string, limit: number): number {
  if (typed.length > 2 && candidate.startsWith(typed)) return typed === candidate ? 0 : 1;
  return Math.abs(typed.length - candidate.length) >= limit ? limit : distance(typed, candidate);
}

/** Damerau-Levenshtein distance: insertions, deletions, replacements and swaps of adjacent characters. */
function distance(from: string, to: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (let row = 1; row <= from.length; row++) {
    const current = [row];
    for (let column = 1; column <= to.length; column++) {
      const isSame = from[row - 1] === to[column - 1];
      let cost = Math.min(
        (last[column] ?? 0) + 1,
        (current[column - 1] ?? 0) + 1,
        (last[column - 1] ?? 0) + (isSame ? 0 : 1),
      );
      const isSwap = from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1];
      if (isSwap && row > 1 && column > 1) cost = Math.min(cost, (beforeLast[column - 2] ?? 0) + 1);
      current.push(cost);
    }
    beforeLast = last;
    last = current;
  }
  return last[to.length] ?? 0;
}
