export interface DiffLine {
  readonly kind: 'same' | 'removed' | 'added';
  readonly text: string;
}

export interface Hunk {
  /** First line of the hunk in each version, from 1. */
  readonly before: number;
  readonly after: number;
  readonly lines: readonly DiffLine[];
}

/** Maximum table size of the longest common subsequence. Larger texts are shown as fully replaced. */
const maxCells = 16_000_000;

/** Line diff by the longest common subsequence. */
export function diffLines(before: readonly string[], after: readonly string[]): DiffLine[] {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start++;
  let end = 0;
  const shortest = Math.min(before.length, after.length) - start;
  while (end < shortest && before[before.length - 1 - end] === after[after.length - 1 - end]) end++;
  const same = (text: string): DiffLine => ({ kind: 'same', text });
  return [
    ...before.slice(0, start).map(same),
    ...diffMiddle(before.slice(start, before.length - end), after.slice(start, after.length - end)),
    ...before.slice(before.length - end).map(same),
  ];
}

function diffMiddle(before: readonly string[], after: readonly string[]): DiffLine[] {
  const columns = after.length + 1;
  const cells = (before.length + 1) * columns;
  // lengths[i, j]: length of the longest common subsequence of before[i..] and after[j..].
  const lengths = new Uint32Array(cells > maxCells ? 0 : cells);
  if (lengths.length > 0)
    for (let i = before.length - 1; i >= 0; i--)
      for (let j = after.length - 1; j >= 0; j--)
        lengths[i * columns + j] =
          before[i] === after[j]
            ? 1 + (lengths[(i + 1) * columns + j + 1] ?? 0)
            : Math.max(lengths[(i + 1) * columns + j] ?? 0, lengths[i * columns + j + 1] ?? 0);

  const lines: DiffLine[] = [];
  let [i, j] = [0, 0];
  while (i < before.length || j < after.length) {
    const [oldLine, newLine] = [before[i], after[j]];
    if (lengths.length > 0 && oldLine !== undefined && oldLine === newLine) {
      lines.push({ kind: 'same', text: oldLine });
      i++;
      j++;
    } else if (
      oldLine !== undefined &&
      (newLine === undefined || (lengths[(i + 1) * columns + j] ?? 0) >= (lengths[i * columns + j + 1] ?? 0))
    ) {
      lines.push({ kind: 'removed', text: oldLine });
      i++;
    } else {
      lines.push({ kind: 'added', text: newLine ?? '' });
      j++;
    }
  }
  return lines;
}

/** Groups the changes of a diff into hunks with context lines. */
export function hunksOf(lines: readonly DiffLine[], context = 3): Hunk[] {
  const hunks: { before: number; after: number; lines: DiffLine[] }[] = [];
  const isNearChange = lines.map((_, at) =>
    lines.slice(Math.max(0, at - context), at + context + 1).some((line) => line.kind !== 'same'),
  );
  let [before, after] = [1, 1];
  for (const [at, line] of lines.entries()) {
    if (isNearChange[at]) {
      if (!isNearChange[at - 1]) hunks.push({ before, after, lines: [] });
      hunks.at(-1)?.lines.push(line);
    }
    if (line.kind !== 'added') before++;
    if (line.kind !== 'removed') after++;
  }
  return hunks;
}
