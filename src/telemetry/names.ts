/** Names chosen by callers and models are shortened to one line, and limited in number, before they are exported. */
const longestName = 128;

// oxlint-disable-next-line no-control-regex -- control characters are matched on purpose
const breaks = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g;

/** Shortens a name to one line of at most 128 characters. */
export function shortName(name: string): string {
  const line = (name.search(breaks) < 0 ? name : name.replaceAll(breaks, ' ')).toWellFormed();
  return line.length <= longestName ? line : `${line.slice(0, longestName - 1).toWellFormed()}…`;
}

/** The label that replaces names beyond the limit. */
export const otherName = '_OTHER';

/** Bounds the number of label values: the first names are kept, later ones become `_OTHER`. */
export class LabelNames {
  readonly #known = new Set<string>();
  readonly #most: number;

  constructor(most = 200) {
    this.#most = most;
  }

  /** The label of a name that is known to exist. */
  of(name: string): string {
    const label = shortName(name);
    if (this.#known.has(label)) return label;
    if (this.#known.size >= this.#most) return otherName;
    this.#known.add(label);
    return label;
  }

  /** The label of an unverified name, which a caller may have invented: `_OTHER` unless it is already known. */
  ofClaimed(name: string): string {
    const label = shortName(name);
    return this.#known.has(label) ? label : otherName;
  }
}
