/** The lines of two texts beside one another, with their numbers. */
import { diffArrays } from 'diff';

export interface DiffSide {
  /** From 1. */
  readonly line: number;
  readonly text: string;
}

/** A line of both texts, of one of them, or a number of equal lines that are left out. */
export type DiffRow =
  | { readonly kind: 'equal' | 'changed'; readonly before: DiffSide; readonly after: DiffSide }
  | { readonly kind: 'removed'; readonly before: DiffSide; readonly after?: undefined }
  | { readonly kind: 'added'; readonly before?: undefined; readonly after: DiffSide }
  | { readonly kind: 'omitted'; readonly count: number };

/** @param context equal lines that are shown around a change */
export function diffRows(before: string, after: string, context = 3): readonly DiffRow[] {
  const rows: Exclude<DiffRow, { kind: 'omitted' }>[] = [];
  let [beforeLine, afterLine] = [1, 1];
  let removed: string[] = [];
  const takeBefore = (text: string): DiffSide => ({ line: beforeLine++, text });
  const takeAfter = (text: string): DiffSide => ({ line: afterLine++, text });
  const flush = (added: readonly string[]) => {
    for (let index = 0; index < Math.max(removed.length, added.length); index++) {
      const [left, right] = [removed[index], added[index]];
      if (left !== undefined && right !== undefined)
        rows.push({ kind: 'changed', before: takeBefore(left), after: takeAfter(right) });
      else if (left !== undefined) rows.push({ kind: 'removed', before: takeBefore(left) });
      else if (right !== undefined) rows.push({ kind: 'added', after: takeAfter(right) });
    }
    removed = [];
  };
  for (const part of diffArrays(before.split('\n'), after.split('\n'))) {
    if (part.removed) {
      removed = part.value;
      continue;
    }
    flush(part.added ? part.value : []);
    if (part.added) continue;
    for (const text of part.value)
      rows.push({ kind: 'equal', before: takeBefore(text), after: takeAfter(text) });
  }
  flush([]);
  return withoutEqualRuns(rows, context);
}

function withoutEqualRuns(rows: readonly DiffRow[], context: number): DiffRow[] {
  const isNearChange = rows.map((_, index) =>
    rows.slice(Math.max(0, index - context), index + context + 1).some(({ kind }) => kind !== 'equal'),
  );
  const result: DiffRow[] = [];
  rows.forEach((row, index) => {
    const last = result.at(-1);
    if (isNearChange[index]) result.push(row);
    else if (last?.kind === 'omitted') result[result.length - 1] = { kind: 'omitted', count: last.count + 1 };
    else result.push({ kind: 'omitted', count: 1 });
  });
  return result;
}
