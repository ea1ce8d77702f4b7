/** What callers and models chose, as it may stand in a trace or a metric: short, in one line, and of few kinds. */
const longestName = 128;

// oxlint-disable-next-line no-control-regex -- they are what is looked for
const breaks = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g;

/** In one line of at most 128 characters. */
export function shortName(name: string): string {
  const line = (name.search(breaks) < 0 ? name : name.replaceAll(breaks, ' ')).toWellFormed();
  return line.length <= longestName ? line : `${line.slice(0, longestName - 1).toWellFormed()}…`;
}

/** What stands for a name once there are too many. */
export const otherName = '_OTHER';

/** Names as labels: the first so many as they are, later ones as `_OTHER`, so that memory stays bounded. */
export class LabelNames {
  readonly #known = new Set<string>();
  readonly #most: number;

  constructor(most = 200) {
    this.#most = most;
  }

  /** A name of something that is there: it did some work. */
  of(name: string): string {
    const label = shortName(name);
    if (this.#known.has(label)) return label;
    if (this.#known.size >= this.#most) return otherName;
    this.#known.add(label);
    return label;
  }

  /** A name that anybody may have made up: it takes no room, and stands for itself only where it is known. */
  ofClaimed(name: string): string {
    const label = shortName(name);
    return this.#known.has(label) ? label : otherName;
  }
}
