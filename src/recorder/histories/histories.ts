import { type RackId, racks } from '../../tracing/index.ts';
import { RecorderError } from '../errors.ts';
import type { NewEvent } from '../types.ts';
import { currentGeneration, currentPath, historyFiles, historyPath } from './history-files.ts';
import type { HistoryPosition } from '../types.ts';
import { emptyTotals, readLastSeq, readTotals, type HistoryTotals } from './history.ts';
import type { AddResult, WriterResponses, WriterRequest, RackSettings } from './protocol.ts';
import { HistoryThread } from './history-thread.ts';

interface Options {
  readonly folder: string;
  /** Live array: secrets that are added later reach threads that start later. */
  readonly secrets: readonly string[];
  /** Entry file of the writer thread. Without it histories can only be inspected. */
  readonly worker: string | undefined;
  readonly settings: ReadonlyMap<RackId, RackSettings>;
  /** RFC 3339 in UTC. */
  readonly time: () => string;
}

/** Access to all histories. Reads metadata directly, and forwards writes to the writer thread. */
export class Histories {
  readonly #folder: string;
  readonly #writerThread: HistoryThread | undefined;
  readonly #time: () => string;
  /** Settings that the thread has, or gets when it starts. */
  readonly #settings: Map<RackId, RackSettings>;

  constructor({ folder, secrets, worker, settings, time }: Options) {
    this.#folder = folder;
    this.#time = time;
    this.#settings = new Map(settings);
    if (worker !== undefined)
      this.#writerThread = new HistoryThread(worker, { folder, secrets }, () =>
        [...this.#settings].map(([rack, known]) => settingsRequest(rack, known)),
      );
  }

  /** Settings of a rack as known in this process. */
  settingsOf(rack: RackId): RackSettings | undefined {
    return this.#settings.get(rack);
  }

  /**
   * Applies settings to all later requests, not to earlier ones.
   * @param before called before the change if the settings are newer
   */
  async applySettings(rack: RackId, settings: RackSettings, before: () => void): Promise<void> {
    if (settings.version <= (this.#settings.get(rack)?.version ?? 0)) return;
    before();
    this.#settings.set(rack, settings);
    if (this.#writerThread?.isRunning) await this.#request(settingsRequest(rack, settings));
  }

  /** Adds a secret to redact from all events added later. */
  async addSecret(secret: string): Promise<void> {
    if (this.#writerThread?.isRunning) await this.#request({ do: 'keepOut', secret });
  }

  /** @returns undefined if the rack is not armed */
  add(rack: RackId, source: string, events: readonly NewEvent[]): Promise<AddResult | undefined> {
    return this.#request({ do: 'add', rack, source, events, now: this.#time() });
  }

  async sweep(rack: RackId): Promise<WriterResponses['sweep']> {
    if (!this.#writerThread) return { events: 0, bytes: 0 };
    return await this.#request({ do: 'sweep', rack, now: this.#time() });
  }

  /** @returns undefined if the purge was already done */
  purge(rack: RackId, generation: number): Promise<HistoryTotals | undefined> {
    return this.#request({ do: 'purge', rack, generation });
  }

  async close(): Promise<void> {
    await this.#writerThread?.close();
  }

  /** Racks that have a history. */
  racks(): RackId[] {
    const racksWithFiles = new Set(historyFiles(this.#folder).map((file) => file.rack));
    return racks.filter((rack) => racksWithFiles.has(rack));
  }

  /** Undefined if nothing was ever recorded. */
  generationOf(rack: RackId): number | undefined {
    return currentGeneration(this.#folder, rack);
  }

  pathOf(rack: RackId): string | undefined {
    return currentPath(this.#folder, rack);
  }

  /** @throws StoreError */
  totalsOf(rack: RackId): HistoryTotals {
    for (;;) {
      const path = this.pathOf(rack);
      if (path === undefined) return emptyTotals;
      try {
        return readTotals(path);
      } catch (error) {
        // Retry if a purge deleted the file meanwhile.
        if (this.pathOf(rack) === path) throw error;
      }
    }
  }

  /** Position after the last recorded event. @throws StoreError */
  endPosition(rack: RackId): HistoryPosition {
    for (;;) {
      const generation = this.generationOf(rack);
      if (generation === undefined) return { generation: 0, seq: 0 };
      try {
        return { generation, seq: readLastSeq(historyPath(this.#folder, rack, generation)) };
      } catch (error) {
        // Retry if a purge deleted the file meanwhile.
        if (this.generationOf(rack) === generation) throw error;
      }
    }
  }

  #request<Q extends WriterRequest>(question: Q): Promise<WriterResponses[Q['do']]> {
    if (this.#writerThread) return this.#writerThread.request(question);
    throw new RecorderError(
      'unavailable',
      'recorder_beside',
      'Only the running host can access the histories; send the request to it over HTTP.',
    );
  }
}

const settingsRequest = (
  rack: RackId,
  { version, armed, policy }: RackSettings,
): Extract<WriterRequest, { do: 'settings' }> => ({
  do: 'settings',
  rack,
  settings: { version, armed, policy },
});
