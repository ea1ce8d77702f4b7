/** An entry of the command palette. */
export interface PaletteEntry {
  readonly group: string;
  readonly title: string;
  /** What tells it from entries with the same title. */
  readonly detail?: string;
  readonly href: string;
  /** Whether the page is not one of the console's. */
  readonly isOtherPage?: boolean;
}

const maxShown = 40;

/** Entries that have every word of the text, the best first. An empty text matches all. */
export function searchEntries(entries: readonly PaletteEntry[], text: string): readonly PaletteEntry[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return entries
    .map((entry) => ({ entry, rank: rankOf(entry, words) }))
    .filter(({ rank }) => rank !== undefined)
    .toSorted((one, other) => (one.rank ?? 0) - (other.rank ?? 0))
    .slice(0, maxShown)
    .map(({ entry }) => entry);
}

/** 0: the title begins with the first word; 1: a word of the title does; 2: any match; undefined: none. */
function rankOf({ group, title, detail = '' }: PaletteEntry, words: readonly string[]): number | undefined {
  const name = title.toLowerCase();
  const all = `${name} ${detail} ${group}`.toLowerCase();
  if (!words.every((word) => all.includes(word))) return undefined;
  const [first = ''] = words;
  if (name.startsWith(first)) return 0;
  return name.split(/[^a-z0-9]+/).some((part) => part.startsWith(first)) ? 1 : 2;
}
