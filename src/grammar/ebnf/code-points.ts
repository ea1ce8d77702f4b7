/** A set of characters: sorted, disjoint, inclusive ranges of code points without surrogates. */
export type CodePoints = readonly (readonly [first: number, last: number])[];

export const allCodePoints: CodePoints = [
  [0, 0xd7ff],
  [0xe000, 0x10ffff],
];

/** Sorts ranges, merges adjacent ones, and removes surrogates. */
export function normalizeRanges(ranges: CodePoints): CodePoints {
  const sorted = [...ranges].sort((a, b) => a[0] - b[0]);
  const merged: [number, number][] = [];
  for (const [first, last] of sorted) {
    const previous = merged.at(-1);
    if (previous && first <= previous[1] + 1) previous[1] = Math.max(previous[1], last);
    else merged.push([first, last]);
  }
  return intersection(merged, allCodePoints);
}

export const union = (a: CodePoints, b: CodePoints): CodePoints => normalizeRanges([...a, ...b]);

export function intersection(a: CodePoints, b: CodePoints): CodePoints {
  const ranges: [number, number][] = [];
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    const [left, right] = [a[i] as [number, number], b[j] as [number, number]];
    const first = Math.max(left[0], right[0]);
    const last = Math.min(left[1], right[1]);
    if (first <= last) ranges.push([first, last]);
    if (left[1] < right[1]) i++;
    else j++;
  }
  return ranges;
}

export function complement(set: CodePoints): CodePoints {
  const ranges: [number, number][] = [];
  let next = 0;
  for (const [first, last] of set) {
    if (first > next) ranges.push([next, first - 1]);
    next = last + 1;
  }
  if (next <= 0x10ffff) ranges.push([next, 0x10ffff]);
  return intersection(ranges, allCodePoints);
}

export const codePointsOf = (text: string): CodePoints =>
  normalizeRanges(
    Array.from(text, (character) => [character.codePointAt(0) ?? 0, character.codePointAt(0) ?? 0]),
  );
