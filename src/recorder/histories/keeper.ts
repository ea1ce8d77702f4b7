import { StoreError } from '../../store/index.ts';
import { errorMessage } from '../../util/error-message.ts';
import type { RackId } from '../../watch/index.ts';
import { Allowance, TooSlow } from '../redaction/allowance.ts';
import { Redactor } from '../redaction/redactor.ts';
import {
  currentGeneration,
  currentPath,
  historyFiles,
  historyPath,
  makeHistoryFile,
  remove,
  removeOlder,
  syncFolder,
} from './files.ts';
import { History, nothing, readTotals, type Totals } from './history.ts';
import type { Added, Answers, Call, Failure, KeeperData, Question, RackSettings, Reply } from './protocol.ts';
import { storedEvent } from './stored-event.ts';
import { sweep } from './sweeping.ts';

interface Place {
  settings: RackSettings | undefined;
  redactor: Redactor | undefined;
  history: History | undefined;
}
interface Adding {
  readonly call: number;
  readonly question: Extract<Question, { do: 'add' }>;
}

/** CPU time budget for redacting the events of one request. Other requests wait meanwhile. */
const patternsMs = 1000;
/** Factor by which a history may exceed its limits before it is swept ahead of the minutely sweep. */
const slack = 1.25;

/**
 * Owns the history files on a thread of its own, so that redaction and disk access do not block the host. Events that
 * arrive while the disk is busy are written together.
 */
export class Keeper {
  readonly #folder: string;
  #secrets: readonly string[];
  readonly #reply: (reply: Reply) => void;
  readonly #places = new Map<RackId, Place>();
  #adding: Adding[] = [];

  constructor({ folder, secrets }: KeeperData, reply: (reply: Reply) => void) {
    this.#folder = folder;
    this.#secrets = secrets;
    this.#reply = reply;
  }

  take({ call, question }: Call): void {
    if (question.do !== 'add') {
      this.#addAll();
      this.#answer(call, () => this.#do(question));
      return;
    }
    this.#adding.push({ call, question });
    if (this.#adding.length === 1) setImmediate(() => this.#addAll());
  }

  #answer(call: number, work: () => Answers[Question['do']]): void {
    try {
      this.#reply({ call, answer: work() });
    } catch (error) {
      this.#reply({ call, failure: failureOf(error) });
    }
  }

  #do(question: Exclude<Question, { do: 'add' }>): Answers[Question['do']] {
    switch (question.do) {
      case 'settings':
        return this.#set(question.rack, question.settings);
      case 'sweep':
        return this.#sweep(question.rack, question.now);
      case 'purge':
        return this.#purge(question.rack, question.generation);
      case 'keepOut':
        return this.#keepOut(question.secret);
      case 'close':
        for (const rack of this.#places.keys()) this.#letGo(rack);
        return undefined;
    }
  }

  #set(rack: RackId, settings: RackSettings): undefined {
    const place = this.#place(rack);
    if (place.settings && place.settings.version >= settings.version) return;
    const redactor = new Redactor(settings.policy.redact, this.#secrets);
    Object.assign(place, { settings, redactor });
  }

  #keepOut(secret: string): undefined {
    this.#secrets = [...this.#secrets, secret];
    for (const place of this.#places.values())
      if (place.settings) place.redactor = new Redactor(place.settings.policy.redact, this.#secrets);
  }

  #addAll(): void {
    const adding = this.#adding;
    this.#adding = [];
    const racks = new Set(adding.map(({ question }) => question.rack));
    for (const rack of racks)
      this.#addTo(
        rack,
        adding.filter(({ question }) => question.rack === rack),
      );
  }

  /** Adds the events of several requests in one commit. */
  #addTo(rack: RackId, adding: readonly Adding[]): void {
    const { settings, redactor } = this.#place(rack);
    if (!settings?.armed || !redactor) {
      for (const { call } of adding) this.#reply({ call, answer: undefined });
      return;
    }
    const { content } = settings.policy;
    const cleaned = adding.flatMap(({ call, question: { source, events, now } }) => {
      try {
        const storing = { content, source, redactor, now, allowance: new Allowance(patternsMs) };
        return [{ call, now, rows: events.map((event) => storedEvent(event, storing)) }];
      } catch (error) {
        this.#reply({ call, failure: failureOf(error) });
        return [];
      }
    });
    if (cleaned.length === 0) return;
    try {
      const now = cleaned.at(-1)?.now ?? '';
      const all = cleaned.flatMap(({ rows }) => rows);
      const isNew = this.#with(rack, (history) => history.add(all, now));
      const expired = this.#sweepEarly(rack, settings, now);
      let at = 0;
      for (const [index, { call, rows }] of cleaned.entries()) {
        const kept = rows.filter((_, position) => isNew[at + position]);
        at += rows.length;
        const answer: Added = {
          accepted: kept.length,
          duplicates: rows.length - kept.length,
          redacted: kept.reduce((sum, event) => sum + event.redacted, 0),
          expired: index === 0 ? expired : { events: 0, bytes: 0 },
        };
        this.#reply({ call, answer });
      }
    } catch (error) {
      for (const { call } of cleaned) this.#reply({ call, failure: failureOf(error) });
    }
  }

  /** Errors are ignored: the events are stored, and the next sweep runs within a minute. */
  #sweepEarly(rack: RackId, { policy: { retention } }: RackSettings, now: string) {
    try {
      const { events, bytes } = this.#with(rack, (history) => history.totals());
      if (events > retention.events * slack || bytes > retention.bytes * slack) return this.#sweep(rack, now);
    } catch {
      // The regular sweep reports the error.
    }
    return { events: 0, bytes: 0 };
  }

  #sweep(rack: RackId, now: string): Answers['sweep'] {
    const { settings } = this.#place(rack);
    if (!settings || currentGeneration(this.#folder, rack) === undefined) return { events: 0, bytes: 0 };
    removeOlder(this.#folder, rack);
    return this.#with(rack, (history) => sweep(history, settings.policy.retention, now));
  }

  /**
   * Deletes a history. The file of the next generation is created first, still empty: after a crash it shows that older
   * generations must be deleted.
   * @param generation generation after the purge
   */
  #purge(rack: RackId, generation: number): Totals | undefined {
    const folder = this.#folder;
    const current = currentGeneration(folder, rack);
    let removed = current === undefined ? nothing : undefined;
    if (current !== undefined && current < generation) {
      removed = this.#totalsOf(rack);
      this.#letGo(rack);
      this.#mark(rack, generation);
    }
    if (!removeOlder(folder, rack))
      throw new StoreError(
        'storage_failed',
        `could not delete files of the history '${rack}' in ${folder}: this user needs permission to delete there`,
      );
    if (current === undefined) return removed;
    makeHistoryFile(historyPath(folder, rack, Math.max(generation, current)));
    syncFolder(folder);
    const left = this.#with(rack, (history) => history.totals());
    if (removed && left.events > 0) throw new Error(`the history '${rack}' has events after its purge`);
    return removed;
  }

  #mark(rack: RackId, generation: number): void {
    try {
      makeHistoryFile(historyPath(this.#folder, rack, generation));
      syncFolder(this.#folder);
    } catch (error) {
      // Disk full: delete the history first; then there is space for the file.
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
      for (const file of historyFiles(this.#folder)) if (file.rack === rack) remove(file.path);
    }
  }

  /** Totals of a history. Empty for a damaged history, which can be purged, too. */
  #totalsOf(rack: RackId): Totals {
    const path = currentPath(this.#folder, rack);
    try {
      return path === undefined ? nothing : readTotals(path);
    } catch {
      return nothing;
    }
  }

  /**
   * Runs an operation on the open history. After a failure the file is closed and opened again by the next operation.
   */
  #with<T>(rack: RackId, work: (history: History) => T): T {
    const place = this.#place(rack);
    if (place.history?.isThere === false) this.#letGo(rack);
    try {
      place.history ??= History.open(
        historyPath(this.#folder, rack, currentGeneration(this.#folder, rack) ?? 0),
      );
      return work(place.history);
    } catch (error) {
      this.#letGo(rack);
      throw error;
    }
  }

  #letGo(rack: RackId): void {
    const place = this.#place(rack);
    const { history } = place;
    place.history = undefined;
    history?.close();
  }

  #place(rack: RackId): Place {
    const known = this.#places.get(rack);
    if (known) return known;
    const place: Place = { settings: undefined, redactor: undefined, history: undefined };
    this.#places.set(rack, place);
    return place;
  }
}

function failureOf(error: unknown): Failure {
  if (error instanceof StoreError) return { code: error.code, message: error.message };
  if (error instanceof TooSlow) return { code: 'redaction_too_slow', message: error.message };
  return { code: 'recorder_failed', message: errorMessage(error) };
}
