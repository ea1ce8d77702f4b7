import { stat } from 'node:fs/promises';

type Presence = 'changed' | 'gone';

interface Watched {
  /** The file, then its dependencies. */
  paths: readonly string[];
  /** Last reported state. */
  told: string;
  /** State of the last poll. */
  seen: string;
}

const lookMs = 80;

/**
 * Watches files by polling. File system events stop when an editor replaces the file or its folder, and network folders
 * have none. A change is reported when a second poll finds the same state, so a burst of writes counts as one save.
 */
export class FileWatcher {
  readonly #watched = new Map<string, Watched>();
  readonly #tell: (file: string, presence: Presence) => void;
  readonly #timer: NodeJS.Timeout;
  #looking = false;

  constructor(tell: (file: string, presence: Presence) => void) {
    this.#tell = tell;
    this.#timer = setInterval(() => void this.#look(), lookMs);
  }

  /** Watches a file, starting from its current state. */
  async add(file: string): Promise<void> {
    const state = await stateOf([file]);
    this.#watched.set(file, { paths: [file], told: state, seen: state });
  }

  /** Sets the dependencies of a file. Their current state counts as reported; that of the file does not. */
  async depends(file: string, others: readonly string[]): Promise<void> {
    const watched = this.#watched.get(file);
    if (!watched) return;
    const paths = [file, ...new Set(others)];
    if (paths.join('\n') === watched.paths.join('\n')) return;
    const fresh = await stateOf(paths.filter((path) => !watched.paths.includes(path)));
    const known = new Map([...stateParts(watched.told), ...stateParts(fresh)]);
    watched.paths = paths;
    watched.told = paths.map((path) => `${path}\t${known.get(path) ?? ''}`).join('\n');
    watched.seen = watched.told;
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async #look(): Promise<void> {
    if (this.#looking) return;
    this.#looking = true;
    try {
      for (const [file, watched] of this.#watched) {
        const { paths } = watched;
        const state = await stateOf(paths);
        // `setDependencies` changed the list during the poll.
        if (paths !== watched.paths) continue;
        const settled = state === watched.seen;
        watched.seen = state;
        if (!settled || state === watched.told) continue;
        watched.told = state;
        this.#tell(file, stateParts(state).get(file) === gone ? 'gone' : 'changed');
      }
    } finally {
      this.#looking = false;
    }
  }
}

const gone = 'gone';

/** One line for each path: the path, a tab, and values that change with every save. */
async function stateOf(paths: readonly string[]): Promise<string> {
  const parts = await Promise.all(
    paths.map(async (path) => {
      const found = await stat(path).catch(() => undefined);
      return `${path}\t${found === undefined ? gone : `${found.ino}:${found.size}:${found.mtimeMs}`}`;
    }),
  );
  return parts.join('\n');
}

const stateParts = (state: string): Map<string, string> =>
  new Map(
    state.split('\n').map((line) => {
      const tab = line.lastIndexOf('\t');
      return [line.slice(0, tab), line.slice(tab + 1)] as const;
    }),
  );
