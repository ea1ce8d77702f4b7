import { stat } from 'node:fs/promises';

type Presence = 'changed' | 'gone';

interface Watched {
  /** The file, then its dependencies. */
  paths: readonly string[];
  /** Last reported state. */
  reported: string;
  /** State of the last poll. */
  lastSeen: string;
}

const pollIntervalMs = 80;

/**
 * Watches files by polling. File system events stop when an editor replaces the file or its folder, and network folders
 * have none. A change is reported when a second poll finds the same state, so a burst of writes counts as one save.
 */
export class FileWatcher {
  readonly #watched = new Map<string, Watched>();
  readonly #onChange: (file: string, presence: Presence) => void;
  readonly #timer: NodeJS.Timeout;
  #isPolling = false;

  constructor(onChange: (file: string, presence: Presence) => void) {
    this.#onChange = onChange;
    this.#timer = setInterval(() => void this.#poll(), pollIntervalMs);
  }

  /** Watches a file, starting from its current state. */
  async add(file: string): Promise<void> {
    const state = await stateOf([file]);
    this.#watched.set(file, { paths: [file], reported: state, lastSeen: state });
  }

  /** Sets the dependencies of a file. Their current state counts as reported; that of the file does not. */
  async setDependencies(file: string, dependencies: readonly string[]): Promise<void> {
    const watched = this.#watched.get(file);
    if (!watched) return;
    const paths = [file, ...new Set(dependencies)];
    if (paths.join('\n') === watched.paths.join('\n')) return;
    const fresh = await stateOf(paths.filter((path) => !watched.paths.includes(path)));
    const known = new Map([...stateParts(watched.reported), ...stateParts(fresh)]);
    watched.paths = paths;
    watched.reported = paths.map((path) => `${path}\t${known.get(path) ?? ''}`).join('\n');
    watched.lastSeen = watched.reported;
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async #poll(): Promise<void> {
    if (this.#isPolling) return;
    this.#isPolling = true;
    try {
      for (const [file, watched] of this.#watched) {
        const { paths } = watched;
        const state = await stateOf(paths);
        // `setDependencies` changed the list during the poll.
        if (paths !== watched.paths) continue;
        const isSettled = state === watched.lastSeen;
        watched.lastSeen = state;
        if (!isSettled || state === watched.reported) continue;
        watched.reported = state;
        this.#onChange(file, stateParts(state).get(file) === missingState ? 'gone' : 'changed');
      }
    } finally {
      this.#isPolling = false;
    }
  }
}

const missingState = 'gone';

/** One line for each path: the path, a tab, and values that change with every save. */
async function stateOf(paths: readonly string[]): Promise<string> {
  const parts = await Promise.all(
    paths.map(async (path) => {
      const found = await stat(path).catch(() => undefined);
      return `${path}\t${found === undefined ? missingState : `${found.ino}:${found.size}:${found.mtimeMs}`}`;
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
