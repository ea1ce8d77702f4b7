import { StoreError } from '../../store/index.ts';
import { errorMessage } from '../../util/error-message.ts';
import type { RackId } from '../../tracing/index.ts';
import { TimeBudget, RedactionTimeoutError } from '../redaction/time-budget.ts';
import { Redactor } from '../redaction/redactor.ts';
import {
  currentGeneration,
  currentPath,
  historyFiles,
  historyPath,
  createHistoryFile,
  deleteFile,
  deleteOlderGenerations,
  syncFolder,
} from './history-files.ts';
import { History, emptyTotals, readTotals, type HistoryTotals } from './history.ts';
import type {
  AddResult,
  WriterResponses,
  WriterCall,
  WriterFailure,
  HistoryWriterData,
  WriterRequest,
  RackSettings,
  WriterReply,
} from './protocol.ts';
import { toStoredEvent } from './stored-event.ts';
import { sweep } from './sweep.ts';

interface RackState {
  settings: RackSettings | undefined;
  redactor: Redactor | undefined;
  history: History | undefined;
}
interface PendingAdd {
  readonly call: number;
  readonly question: Extract<WriterRequest, { do: 'add' }>;
}

/** CPU time budget for redacting the events of one request. Other requests wait meanwhile. */
const redactionBudgetMs = 1000;
/** Factor by which a history may exceed its limits before it is swept ahead of the minutely sweep. */
const overflowFactor = 1.25;

/**
 * Owns the history files on a thread of its own, so that redaction and disk access do not block the host. Events that
 * arrive while the disk is busy are written together.
 */
export class HistoryWriter {
  readonly #folder: string;
  #secrets: readonly string[];
  readonly #reply: (reply: WriterReply) => void;
  readonly #rackStates = new Map<RackId, RackState>();
  #pendingAdds: PendingAdd[] = [];

  constructor({ folder, secrets }: HistoryWriterData, reply: (reply: WriterReply) => void) {
    this.#folder = folder;
    this.#secrets = secrets;
    this.#reply = reply;
  }

  handle({ call, question }: WriterCall): void {
    if (question.do !== 'add') {
      this.#flushAdds();
      this.#respond(call, () => this.#execute(question));
      return;
    }
    this.#pendingAdds.push({ call, question });
    if (this.#pendingAdds.length === 1) setImmediate(() => this.#flushAdds());
  }

  #respond(call: number, work: () => WriterResponses[WriterRequest['do']]): void {
    try {
      this.#reply({ call, answer: work() });
    } catch (error) {
      this.#reply({ call, failure: toFailure(error) });
    }
  }

  #execute(question: Exclude<WriterRequest, { do: 'add' }>): WriterResponses[WriterRequest['do']] {
    switch (question.do) {
      case 'settings':
        return this.#applySettings(question.rack, question.settings);
      case 'sweep':
        return this.#sweep(question.rack, question.now);
      case 'purge':
        return this.#purge(question.rack, question.generation);
      case 'keepOut':
        return this.#addSecret(question.secret);
      case 'close':
        for (const rack of this.#rackStates.keys()) this.#closeHistory(rack);
        return undefined;
    }
  }

  #applySettings(rack: RackId, settings: RackSettings): undefined {
    const rackState = this.#rackState(rack);
    if (rackState.settings && rackState.settings.version >= settings.version) return;
    const redactor = new Redactor(settings.policy.redact, this.#secrets);
    Object.assign(rackState, { settings, redactor });
  }

  #addSecret(secret: string): undefined {
    this.#secrets = [...this.#secrets, secret];
    for (const rackState of this.#rackStates.values())
      if (rackState.settings)
        rackState.redactor = new Redactor(rackState.settings.policy.redact, this.#secrets);
  }

  #flushAdds(): void {
    const pendingAdds = this.#pendingAdds;
    this.#pendingAdds = [];
    const racks = new Set(pendingAdds.map(({ question }) => question.rack));
    for (const rack of racks)
      this.#addToRack(
        rack,
        pendingAdds.filter(({ question }) => question.rack === rack),
      );
  }

  /** Adds the events of several requests in one commit. */
  #addToRack(rack: RackId, pendingAdds: readonly PendingAdd[]): void {
    const { settings, redactor } = this.#rackState(rack);
    if (!settings?.armed || !redactor) {
      for (const { call } of pendingAdds) this.#reply({ call, answer: undefined });
      return;
    }
    const { content } = settings.policy;
    const cleaned = pendingAdds.flatMap(({ call, question: { source, events, now } }) => {
      try {
        const storing = { content, source, redactor, now, allowance: new TimeBudget(redactionBudgetMs) };
        return [{ call, now, rows: events.map((event) => toStoredEvent(event, storing)) }];
      } catch (error) {
        this.#reply({ call, failure: toFailure(error) });
        return [];
      }
    });
    if (cleaned.length === 0) return;
    try {
      const now = cleaned.at(-1)?.now ?? '';
      const all = cleaned.flatMap(({ rows }) => rows);
      const isNew = this.#withHistory(rack, (history) => history.add(all, now));
      const expired = this.#sweepIfOverflowing(rack, settings, now);
      let at = 0;
      for (const [index, { call, rows }] of cleaned.entries()) {
        const kept = rows.filter((_, position) => isNew[at + position]);
        at += rows.length;
        const answer: AddResult = {
          accepted: kept.length,
          duplicates: rows.length - kept.length,
          redacted: kept.reduce((sum, event) => sum + event.redacted, 0),
          expired: index === 0 ? expired : { events: 0, bytes: 0 },
        };
        this.#reply({ call, answer });
      }
    } catch (error) {
      for (const { call } of cleaned) this.#reply({ call, failure: toFailure(error) });
    }
  }

  /** Errors are ignored: the events are stored, and the next sweep runs within a minute. */
  #sweepIfOverflowing(rack: RackId, { policy: { retention } }: RackSettings, now: string) {
    try {
      const { events, bytes } = this.#withHistory(rack, (history) => history.totals());
      if (events > retention.events * overflowFactor || bytes > retention.bytes * overflowFactor)
        return this.#sweep(rack, now);
    } catch {
      // The regular sweep reports the error.
    }
    return { events: 0, bytes: 0 };
  }

  #sweep(rack: RackId, now: string): WriterResponses['sweep'] {
    const { settings } = this.#rackState(rack);
    if (!settings || currentGeneration(this.#folder, rack) === undefined) return { events: 0, bytes: 0 };
    deleteOlderGenerations(this.#folder, rack);
    return this.#withHistory(rack, (history) => sweep(history, settings.policy.retention, now));
  }

  /**
   * Deletes a history. The file of the next generation is created first, still empty: after a crash it shows that older
   * generations must be deleted.
   * @param generation generation after the purge
   */
  #purge(rack: RackId, generation: number): HistoryTotals | undefined {
    const folder = this.#folder;
    const current = currentGeneration(folder, rack);
    let removed = current === undefined ? emptyTotals : undefined;
    if (current !== undefined && current < generation) {
      removed = this.#totalsOf(rack);
      this.#closeHistory(rack);
      this.#createGeneration(rack, generation);
    }
    if (!deleteOlderGenerations(folder, rack))
      throw new StoreError(
        'storage_failed',
        `could not delete files of the history '${rack}' in ${folder}: this user needs permission to delete there`,
      );
    if (current === undefined) return removed;
    createHistoryFile(historyPath(folder, rack, Math.max(generation, current)));
    syncFolder(folder);
    const left = this.#withHistory(rack, (history) => history.totals());
    if (removed && left.events > 0) throw new Error(`the history '${rack}' has events after its purge`);
    return removed;
  }

  #createGeneration(rack: RackId, generation: number): void {
    try {
      createHistoryFile(historyPath(this.#folder, rack, generation));
      syncFolder(this.#folder);
    } catch (error) {
      // Disk full: delete the history first; then there is space for the file.
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
      for (const file of historyFiles(this.#folder)) if (file.rack === rack) deleteFile(file.path);
    }
  }

  /** Totals of a history. Empty for a damaged history, which can be purged, too. */
  #totalsOf(rack: RackId): HistoryTotals {
    const path = currentPath(this.#folder, rack);
    try {
      return path === undefined ? emptyTotals : readTotals(path);
    } catch {
      return emptyTotals;
    }
  }

  /**
   * Runs an operation on the open history. After a failure the file is closed and opened again by the next operation.
   */
  #withHistory<T>(rack: RackId, work: (history: History) => T): T {
    const rackState = this.#rackState(rack);
    if (rackState.history?.isCurrentFile === false) this.#closeHistory(rack);
    try {
      rackState.history ??= History.open(
        historyPath(this.#folder, rack, currentGeneration(this.#folder, rack) ?? 0),
      );
      return work(rackState.history);
    } catch (error) {
      this.#closeHistory(rack);
      throw error;
    }
  }

  #closeHistory(rack: RackId): void {
    const rackState = this.#rackState(rack);
    const { history } = rackState;
    rackState.history = undefined;
    history?.close();
  }

  #rackState(rack: RackId): RackState {
    const known = this.#rackStates.get(rack);
    if (known) return known;
    const rackState: RackState = { settings: undefined, redactor: undefined, history: undefined };
    this.#rackStates.set(rack, rackState);
    return rackState;
  }
}

function toFailure(error: unknown): WriterFailure {
  if (error instanceof StoreError) return { code: error.code, message: error.message };
  if (error instanceof RedactionTimeoutError) return { code: 'redaction_too_slow', message: error.message };
  return { code: 'recorder_failed', message: errorMessage(error) };
}
