/** A set of characters: sorted, disjoint, inclusive ranges of code points without surrogates. */
export type CodePoints = readonly (readonly [first: number, last: number])[];

export const everyCharacter: CodePoints = [
  [0, 0xd7ff],
  [0xe000, 0x10ffff],
];

/** Sorts ranges, merges adjacent ones, and removes surrogates. */
export function codePoints(ranges: CodePoints): CodePoints {
  const sorted = [...ranges].sort((a, b) => a[0] - b[0]);
  const joined: [number, number][] = [];
  for (const [first, last] of sorted) {
    const before = joined.at(-1);
    if (before && first <= before[1] + 1) before[1] = Math.max(before[1], last);
    else joined.push([first, last]);
  }
  return intersection(joined, everyCharacter);
}

export const union = (a: CodePoints, b: CodePoints): CodePoints => codePoints([...a, ...b]);

export function intersection(a: CodePoints, b: CodePoints): CodePoints {
  const found: [number, number][] = [];
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    const [left, right] = [a[i] as [number, number], b[j] as [number, number]];
    const first = Math.max(left[0], right[0]);
    const last = Math.min(left[1], right[1]);
    if (first <= last) found.push([first, last]);
    if (left[1] < right[1]) i++;
    else j++;
  }
  return found;
}

export function complement(set: CodePoints): CodePoints {
  const found: [number, number][] = [];
  let next = 0;
  for (const [first, last] of set) {
    if (first > next) found.push([next, first - 1]);
    next = last + 1;
  }
  if (next <= 0x10ffff) found.push([next, 0x10ffff]);
  return intersection(found, everyCharacter);
}

export const charactersOf = (text: string): CodePoints =>
  codePoints(Array.from(text, (character) => [character.codePointAt(0) ?? 0, character.codePointAt(0) ?? 0]));
