import { raceAbort } from '../../util/race-abort.ts';
import type { PullProgress } from '../../pull/pull.ts';
import type { Reference } from '../../pull/reference.ts';

export interface DownloadListener {
  readonly onProgress: (progress: PullProgress) => void;
  /** Messages for the waiting user. */
  readonly onNotice: (message: string) => void;
}

type FetchModel = (reference: Reference, listener: DownloadListener, signal: AbortSignal) => Promise<string>;

interface Download {
  readonly listeners: Set<DownloadListener>;
  readonly abort: AbortController;
  readonly path: Promise<string>;
  lastProgress: PullProgress | undefined;
}

/**
 * Running downloads. Requests for the same model share one download, which is aborted when the last request leaves; the
 * bytes received are kept. Downloads of one repository run one at a time, because they may include the same file.
 */
export class SharedDownloads {
  readonly #fetch: FetchModel;
  readonly #running = new Map<string, Download>();
  readonly #repositories = new Map<string, Promise<unknown>>();

  constructor(fetch: FetchModel) {
    this.#fetch = fetch;
  }

  /** @returns path of the model */
  async pull(reference: Reference, caller: DownloadListener, signal: AbortSignal): Promise<string> {
    signal.throwIfAborted();
    const key = JSON.stringify([reference.repo, reference.file, reference.revision]);
    const download = this.#running.get(key) ?? this.#start(key, reference);
    // A copy: a listener that is passed twice is called twice.
    const listener = { ...caller };
    download.listeners.add(listener);
    if (download.lastProgress) listener.onProgress(download.lastProgress);
    try {
      return await raceAbort(download.path, signal);
    } finally {
      download.listeners.delete(listener);
      if (download.listeners.size === 0 && this.#running.get(key) === download) {
        this.#running.delete(key);
        download.abort.abort(new Error('nobody waits for the download'));
      }
    }
  }

  #start(key: string, reference: Reference): Download {
    const { repo } = reference;
    const listeners = new Set<DownloadListener>();
    const abort = new AbortController();
    const previous = this.#repositories.get(repo) ?? Promise.resolve();
    const run = async () => {
      await previous.catch(() => undefined);
      abort.signal.throwIfAborted();
      const all: DownloadListener = {
        onProgress(progress) {
          download.lastProgress = progress;
          for (const { onProgress } of listeners) onProgress(progress);
        },
        onNotice(message) {
          for (const { onNotice } of listeners) onNotice(message);
        },
      };
      return await this.#fetch(reference, all, abort.signal);
    };
    const download: Download = { listeners, abort, path: run(), lastProgress: undefined };
    this.#running.set(key, download);
    this.#repositories.set(repo, download.path);
    const forget = () => {
      if (this.#running.get(key) === download) this.#running.delete(key);
      if (this.#repositories.get(repo) === download.path) this.#repositories.delete(repo);
    };
    download.path.then(forget, forget);
    return download;
  }
}
