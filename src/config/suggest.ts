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

/** The known word nearest to a mistyped one, or nothing when none is near. */
export function suggest(word: string, known: readonly string[]): string | undefined {
  const typed = word.toLowerCase().slice(0, 64);
  const ranked = known
    .map((candidate) => ({
      candidate,
      edits:
        candidate.toLowerCase().startsWith(typed) && typed.length > 2
          ? 1
          : distance(typed, candidate.toLowerCase()),
    }))
    .sort((a, b) => a.edits - b.edits);
  const best = ranked[0];
  return best && best.edits <= Math.max(1, Math.floor(typed.length / 3)) ? best.candidate : undefined;
}

/** ` (did you mean 'x'?)`, or nothing. */
export function didYouMean(word: string, known: readonly string[], show: (name: string) => string): string {
  const near = suggest(word, known);
  return near === undefined ? '' : ` (did you mean ${show(near)}?)`;
}
