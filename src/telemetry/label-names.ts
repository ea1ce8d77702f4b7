/** Names chosen by callers and models are shortened to one line, and limited in number, before they are exported. */
const maxNameLength = 128;

// oxlint-disable-next-line no-control-regex -- control characters are matched on purpose
const lineBreaks = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g;

/** Shortens a name to one line of at most 128 characters. */
export function shortenName(name: string): string {
  const line = (name.search(lineBreaks) < 0 ? name : name.replaceAll(lineBreaks, ' ')).toWellFormed();
  return line.length <= maxNameLength ? line : `${line.slice(0, maxNameLength - 1).toWellFormed()}…`;
}

/** The label that replaces names beyond the limit. */
export const otherLabel = '_OTHER';

/** Bounds the number of label values: the first names are kept, later ones become `_OTHER`. */
export class LabelNames {
  readonly #knownNames = new Set<string>();
  readonly #maxNames: number;

  constructor(maxNames = 200) {
    this.#maxNames = maxNames;
  }

  /** The label of a name that is known to exist. */
  labelOf(name: string): string {
    const label = shortenName(name);
    if (this.#knownNames.has(label)) return label;
    if (this.#knownNames.size >= this.#maxNames) return otherLabel;
    this.#knownNames.add(label);
    return label;
  }

  /** The label of an unverified name, which a caller may have invented: `_OTHER` unless it is already known. */
  labelOfUnverified(name: string): string {
    const label = shortenName(name);
    return this.#knownNames.has(label) ? label : otherLabel;
  }
}
