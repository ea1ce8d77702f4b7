import { chmodSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Transcripts } from '../observe/types.ts';
import { StoreError } from '../store/index.ts';
import { errorMessage } from '../util/error-message.ts';
import { type RackId, racks, type TraceSink } from '../tracing/index.ts';
import { didYouMean } from '../words/nearest.ts';
import { captureSink } from './capture/sink.ts';
import { CaptureBuffer } from './capture-buffer.ts';
import { ControlDatabase } from './control/database.ts';
import { type FindPeer, Grants, lastHiddenSeq } from './control/grants.ts';
import { type PendingPurge, Purges } from './control/purges.ts';
import { Review } from './control/review.ts';
import { readAllSettings, changeSettings, type StoredSettings, readSettings } from './control/settings.ts';
import { RecorderError } from './errors.ts';
import { historyPath } from './histories/history-files.ts';
import { Histories } from './histories/histories.ts';
import { emptyTotals } from './histories/history.ts';
import type { AddResult } from './histories/protocol.ts';
import { Ingest } from './ingest.ts';
import type { RecorderService } from './services.ts';
import { TimeBudget } from './redaction/time-budget.ts';
import { Redactor } from './redaction/redactor.ts';
import {
  type ContentLevel,
  defaultPolicy,
  type NewEvent,
  type Policy,
  type Rack,
  type Tombstone,
} from './types.ts';
import { safeErrorReason } from '../words/plain-reason.ts';

export interface RecorderOptions {
  /** Folder of the recorder. Created with mode 700 if absent. */
  readonly folder: string;
  /**
   * Entry file of the thread that writes the histories. Without it the recorder only manages policies, grants, tokens
   * and the review, as the command line does next to a running host.
   */
  readonly worker?: string | undefined;
  /**
   * Secrets that are never stored, whatever the policy. Secrets minted by hosts are recognized by their format and need
   * not be listed.
   */
  readonly secrets: readonly string[];
  /** Reports failures of background work. */
  readonly onFault: (message: string) => void;
  readonly onNotice: (message: string) => void;
  /** Finds the peer that has a name now. Without it peers are compared by name only. */
  readonly findPeer?: FindPeer | undefined;
  readonly now?: (() => Date) | undefined;
}

type ParametersOf<Name extends keyof RecorderService> = RecorderService[Name] extends (
  ...given: infer G
) => unknown
  ? G
  : never;
type ReturnOf<Name extends keyof RecorderService> = RecorderService[Name] extends (...given: never) => infer A
  ? A
  : never;

/** Time budget for redacting a text outside the writer thread. It blocks the event loop. */
const redactionBudgetMs = 50;
/** Interval at which the control database is checked for changes by other processes. */
const settingsPollMs = 500;
const sweepIntervalMs = 60_000;

/** The recorder: racks with their policies and histories, grants, write tokens and the review. */
export class Recorder implements RecorderService {
  readonly sink: TraceSink;
  readonly transcripts: Transcripts;
  readonly #options: RecorderOptions;
  readonly #secrets: string[];
  readonly #control: ControlDatabase;
  readonly #review: Review;
  readonly #grants: Grants;
  readonly #purges: Purges;
  readonly #histories: Histories;
  readonly #captureBuffer: CaptureBuffer;
  readonly #ingest: Ingest;
  /** Redactors by rack, each for the policy that it was built from. */
  readonly #redactors = new Map<RackId, { readonly policy: Policy; readonly redactor: Redactor }>();
  /** Version of the control database at the last check. */
  #seenVersion: number;
  #lastPurge: Promise<unknown> = Promise.resolve();
  #timers: readonly NodeJS.Timeout[] = [];
  readonly #inFlight = new Set<Promise<unknown>>();
  #closing: Promise<void> | undefined;

  private constructor(
    options: RecorderOptions,
    control: ControlDatabase,
    settings: ReadonlyMap<RackId, StoredSettings>,
    seenVersion: number,
  ) {
    const { folder, worker, onFault } = options;
    const secrets = [...options.secrets];
    this.#options = options;
    this.#secrets = secrets;
    this.#control = control;
    this.#seenVersion = seenVersion;
    this.#review = new Review(control, onFault);
    this.#grants = new Grants(control, this.#review, options.findPeer);
    this.#purges = new Purges(control, this.#review);
    this.#histories = new Histories({ folder, secrets, worker, settings, time: () => control.time() });
    this.#captureBuffer = new CaptureBuffer({
      store: (rack, events) => this.#add(rack, 'host', events),
      onFault,
    });
    this.#ingest = new Ingest({
      grants: this.#grants,
      review: this.#review,
      add: async (rack, source, events) => {
        await this.#applySettings(rack, await control.read((db) => readSettings(db, rack)));
        return await this.#add(rack, source, events);
      },
    });
    this.sink = captureSink({
      contentOf: (rack) => this.contentOf(rack),
      record: (rack, events) => this.record(rack, events),
    });
    this.transcripts = {
      readable: (by) => this.#track(() => this.#readable(by)),
      read: (by, read, rows) => this.#track(() => this.#logRead(by, read, rows)),
    };
  }

  /** @throws StoreError */
  static async open(options: RecorderOptions): Promise<Recorder> {
    const { folder, worker, now = () => new Date() } = options;
    makeFolder(folder);
    const control = await ControlDatabase.open(join(folder, 'recorder.db'), now);
    try {
      const seenVersion = await control.version();
      const recorder = new Recorder(options, control, await control.read(readAllSettings), seenVersion);
      if (worker !== undefined) await recorder.#start();
      return recorder;
    } catch (error) {
      await control.close();
      throw error;
    }
  }

  async #start(): Promise<void> {
    for (const intent of await this.#purges.unfinished()) {
      await this.#purgeNow(intent);
      this.#options.onNotice(`finished the purge of the rack '${intent.rack}' that was begun ${intent.at}`);
    }
    const periodically = (what: string, work: () => Promise<void>) => () => {
      if (this.#closing) return;
      this.#track(work).catch((error: unknown) => this.#options.onFault(`${what}: ${errorMessage(error)}`));
    };
    const sweep = periodically('events that expired may still be there', () => this.#sweep());
    const pollSettings = periodically('what was changed beside the host is not known', () =>
      this.#pollSettings(),
    );
    this.#timers = [setInterval(pollSettings, settingsPollMs), setInterval(sweep, sweepIntervalMs)];
    for (const timer of this.#timers) timer.unref();
    sweep();
  }

  /** Content policy of an armed rack; undefined if it is not armed. Cached, at most half a second old. */
  contentOf(rack: RackId): ContentLevel | undefined {
    const settings = this.#histories.settingsOf(rack);
    return settings?.armed && !this.#closing ? settings.policy.content : undefined;
  }

  /**
   * Redacts a text by the rack's policy, for texts that leave the host by another way than a history.
   * @throws RedactionTimeoutError
   */
  redact(text: string, rack: RackId): string {
    const { policy } = this.#histories.settingsOf(rack) ?? { policy: defaultPolicy };
    const known = this.#redactors.get(rack);
    const current =
      known?.policy === policy ? known : { policy, redactor: new Redactor(policy.redact, this.#secrets) };
    this.#redactors.set(rack, current);
    return current.redactor.redact(text, new TimeBudget(redactionBudgetMs)).text;
  }

  /** Adds a secret that is never stored from now on, whatever the policy. */
  addSecret(secret: string): void {
    if (this.#secrets.includes(secret)) return;
    this.#secrets.push(secret);
    this.#redactors.clear();
    // Events captured earlier are redacted, too, because they reach the thread later. A thread that ended gets the
    // secret when it starts again.
    this.#histories.addSecret(secret).catch(() => undefined);
  }

  /**
   * Records events without waiting and without throwing. Events that cannot be stored in time are dropped and reported.
   */
  record(rack: RackId, events: readonly NewEvent[]): void {
    if (this.contentOf(rack) !== undefined) this.#captureBuffer.add(rack, events);
  }

  racks(): ReturnOf<'racks'> {
    return this.#track(async () => {
      const settings = await this.#control.read(readAllSettings);
      return [...settings].map(([rack, known]) => this.#rackOf(rack, known));
    });
  }

  rack(id: string): ReturnOf<'rack'> {
    return this.#track(async () => {
      const rack = parseRackId(id);
      return this.#rackOf(rack, await this.#control.read((db) => readSettings(db, rack)));
    });
  }

  change(...[id, change, by]: ParametersOf<'change'>): ReturnOf<'change'> {
    return this.#track(async () => {
      const rack = parseRackId(id);
      const settings = await changeSettings(this.#control, this.#review, rack, change, by);
      await this.#applySettings(rack, settings);
      if (change.policy?.retention !== undefined) await this.#sweepRack(rack);
      return this.#rackOf(rack, settings);
    });
  }

  grants(rack?: string): ReturnOf<'grants'> {
    return this.#track(async () => this.#grants.list(rack === undefined ? undefined : parseRackId(rack)));
  }

  grant(...[request, by]: ParametersOf<'grant'>): ReturnOf<'grant'> {
    return this.#track(async () => {
      const rack = parseRackId(request.rack);
      // Events captured before the grant must precede its position in the history.
      await this.#captureBuffer.drain();
      const after = request.includesPast ? undefined : this.#histories.endPosition(rack);
      return await this.#grants.create({ ...request, rack, after }, by);
    });
  }

  revokeGrantsTo(...[to, by]: ParametersOf<'revokeGrantsTo'>): ReturnOf<'revokeGrantsTo'> {
    return this.#track(() => this.#grants.revokeTo(to, by));
  }

  revokeGrant(...[id, by]: ParametersOf<'revokeGrant'>): ReturnOf<'revokeGrant'> {
    return this.#track(() => this.#grants.revoke(id, by));
  }

  mintToken(...[request, by]: ParametersOf<'mintToken'>): ReturnOf<'mintToken'> {
    return this.#track(async () => this.#grants.mint({ ...request, rack: parseRackId(request.rack) }, by));
  }

  revokeToken(...[id, by]: ParametersOf<'revokeToken'>): ReturnOf<'revokeToken'> {
    return this.#track(() => this.#grants.revokeToken(id, by));
  }

  review(...[{ rack, after, limit }]: ParametersOf<'review'>): ReturnOf<'review'> {
    return this.#track(async () =>
      this.#review.list({ after, limit, rack: rack === undefined ? undefined : parseRackId(rack) }),
    );
  }

  ingest(...[token, events, by]: ParametersOf<'ingest'>): ReturnOf<'ingest'> {
    return this.#track(() => this.#ingest.ingest(token, events, by));
  }

  purge(...[id, by]: ParametersOf<'purge'>): ReturnOf<'purge'> {
    return this.#track(async () => {
      const rack = parseRackId(id);
      // Purges run one at a time, because each one applies to the history that the previous one left.
      const done = this.#lastPurge.then(() => this.#purge(rack, by));
      this.#lastPurge = done.catch(() => undefined);
      return { ...(await done), verified: true };
    });
  }

  sweep(): ReturnOf<'sweep'> {
    return this.#track(() => this.#sweep());
  }

  close(): ReturnOf<'close'> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    await Promise.allSettled(this.#inFlight);
    await this.#captureBuffer.drain();
    await this.#histories.close();
    await this.#review.close();
    await this.#control.close();
  }

  /** Runs an operation, tracks it for `close`, and converts `StoreError` to `RecorderError`. */
  async #track<T>(work: () => Promise<T>): Promise<T> {
    if (this.#closing)
      throw new RecorderError(
        'unavailable',
        'recorder_closed',
        'The recorder is closed because the host is shutting down.',
      );
    const working = work();
    this.#inFlight.add(working);
    try {
      return await working;
    } catch (error) {
      throw error instanceof StoreError ? toRecorderError(error) : error;
    } finally {
      this.#inFlight.delete(working);
    }
  }

  async #add(rack: RackId, source: string, events: readonly NewEvent[]): Promise<AddResult | undefined> {
    const added = await this.#histories.add(rack, source, events);
    if (added) this.#logExpired(rack, added.expired);
    return added;
  }

  /** Applies new settings. Events captured before are stored under the previous settings. */
  #applySettings(rack: RackId, settings: StoredSettings): Promise<void> {
    return this.#histories.applySettings(rack, settings, () => this.#captureBuffer.flush());
  }

  async #purge(rack: RackId, by: string): Promise<Tombstone> {
    const generation = (this.#histories.generationOf(rack) ?? 0) + 1;
    const intent = await this.#purges.begin({ rack, generation, by }, this.#totalsBeforePurge(rack));
    try {
      return await this.#purgeNow(intent);
    } catch (error) {
      // Nothing was removed. The purge must not remove events that arrive from now on.
      const current = this.#histories.generationOf(rack);
      if (current !== undefined && current < generation) await this.#purges.cancel(intent);
      throw error;
    }
  }

  /** Totals of a history before its purge. Empty for a damaged history, which can be purged, too. */
  #totalsBeforePurge(rack: RackId) {
    try {
      return this.#histories.totalsOf(rack);
    } catch {
      return emptyTotals;
    }
  }

  async #purgeNow(intent: PendingPurge): Promise<Tombstone> {
    this.#captureBuffer.flush();
    const removed = await this.#histories.purge(intent.rack, intent.generation);
    return await this.#purges.complete(intent, removed);
  }

  async #sweep(): Promise<void> {
    await this.#pollSettings();
    // Finish purges that failed half-way. Newer events are not touched.
    await this.#lastPurge;
    for (const intent of await this.#purges.unfinished())
      if ((this.#histories.generationOf(intent.rack) ?? 0) >= intent.generation) await this.#purgeNow(intent);
    for (const rack of this.#histories.racks()) await this.#sweepRack(rack);
  }

  async #sweepRack(rack: RackId): Promise<void> {
    this.#logExpired(rack, await this.#histories.sweep(rack));
  }

  #logExpired(rack: RackId, { events, bytes }: { readonly events: number; readonly bytes: number }): void {
    if (events > 0)
      this.#review.writeInBackground({ by: 'host', act: 'expired', rack, details: { events, bytes } });
  }

  /** Applies settings that another process changed. */
  async #pollSettings(): Promise<void> {
    const version = await this.#control.version();
    if (version === this.#seenVersion) return;
    for (const [rack, settings] of await this.#control.read(readAllSettings))
      await this.#applySettings(rack, settings);
    this.#seenVersion = version;
  }

  async #readable(by: string): ReturnType<Transcripts['readable']> {
    const granted = await this.#grants.readable(by);
    const readable = racks.flatMap((rack) => {
      const generation = granted.has(rack) ? this.#histories.generationOf(rack) : undefined;
      if (generation === undefined) return [];
      const after = lastHiddenSeq(generation, granted.get(rack));
      const path = historyPath(this.#options.folder, rack, generation);
      return [{ rack, path, ...(after > 0 ? { after } : {}) }];
    });
    return { racks: readable, withheld: racks.filter((rack) => !granted.has(rack)) };
  }

  async #logRead(by: string, read: readonly RackId[], rows: number): Promise<void> {
    await Promise.all(
      read.map((rack) => this.#review.write({ by, act: 'read', rack, details: { rows, racks: read } })),
    );
  }

  #rackOf(id: RackId, { armed, policy, changedAt, changedBy }: StoredSettings): Rack {
    const { events, bytes, from, to } = this.#histories.totalsOf(id);
    const changed = { changed_at: changedAt, changed_by: changedBy };
    return { id, armed, policy, ...changed, events, bytes, oldest: from, newest: to };
  }
}

/** @throws StoreError */
function makeFolder(folder: string): void {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    chmodSync(folder, 0o700);
  } catch (cause) {
    const reason = safeErrorReason(cause);
    throw new StoreError('storage_failed', `cannot use the recorder's folder ${folder}: ${reason}`, {
      cause,
    });
  }
}

/** @throws RecorderError not_found */
function parseRackId(id: string): RackId {
  const known = racks.find((rack) => rack === id);
  if (known !== undefined) return known;
  throw new RecorderError(
    'not_found',
    'unknown_rack',
    `There is no rack '${id.slice(0, 80)}'${didYouMean(id, racks, (name) => `'${name}'`)}; the racks are: ${racks.join(', ')}.`,
  );
}

function toRecorderError(cause: StoreError): RecorderError {
  const unsure = cause.code === 'storage_unsure';
  const message = `${cause.message}.${unsure ? ' The operation may still have succeeded; events that are sent again are stored once.' : ''}`;
  return new RecorderError('unavailable', cause.code, message, { cause });
}
