import { chmodSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Transcripts } from '../observe/types.ts';
import { StoreError } from '../store/index.ts';
import { errorMessage } from '../util/error-message.ts';
import { type RackId, racks, type Sink } from '../watch/index.ts';
import { didYouMean } from '../words/nearest.ts';
import { captureSink } from './capture/sink.ts';
import { CaptureBuffer } from './capture-buffer.ts';
import { ControlDatabase } from './control/database.ts';
import { type FindPeer, Grants, hiddenIn } from './control/grants.ts';
import { type Intent, Purges } from './control/purges.ts';
import { Review } from './control/review.ts';
import { allSettings, changeSettings, type KnownSettings, settingsOf } from './control/settings.ts';
import { RecorderError } from './errors.ts';
import { historyPath } from './histories/files.ts';
import { Histories } from './histories/histories.ts';
import { nothing } from './histories/history.ts';
import type { Added } from './histories/protocol.ts';
import { Ingest } from './ingest.ts';
import type { RecorderService } from './services.ts';
import { Allowance } from './redaction/allowance.ts';
import { Redactor } from './redaction/redactor.ts';
import {
  type Content,
  defaultPolicy,
  type NewEvent,
  type Policy,
  type Rack,
  type Tombstone,
} from './types.ts';
import { plainReason } from '../words/plain-reason.ts';

export interface RecorderOptions {
  /** Made where it is absent, for its owner alone. */
  readonly folder: string;
  /**
   * The entry of the thread that has the histories. Without one it stands beside a host: for rules, grants, tokens and the
   * review alone.
   */
  readonly worker?: string | undefined;
  /** Texts that are never stored, whatever a policy says. What hosts mint is known by its form and need not be here. */
  readonly secrets: readonly string[];
  /** What failed while nobody was waiting for it. */
  readonly onFault: (message: string) => void;
  readonly onNotice: (message: string) => void;
  /** Who has a peer's name now. Without it a name is all that there is of a peer. */
  readonly findPeer?: FindPeer | undefined;
  readonly now?: (() => Date) | undefined;
}

type Given<Name extends keyof RecorderService> = RecorderService[Name] extends (...given: infer G) => unknown
  ? G
  : never;
type Answer<Name extends keyof RecorderService> = RecorderService[Name] extends (...given: never) => infer A
  ? A
  : never;

/** What patterns may take for a text that is not for the histories, in ms: everybody else waits meanwhile. */
const patternsMs = 50;
/** How often it is looked whether somebody beside the host changed something, in ms. */
const lookEvery = 500;
const sweepEvery = 60_000;

/** Racks, their histories, and who may do what with them. */
export class Recorder implements RecorderService {
  readonly sink: Sink;
  readonly transcripts: Transcripts;
  readonly #options: RecorderOptions;
  readonly #secrets: string[];
  readonly #control: ControlDatabase;
  readonly #review: Review;
  readonly #grants: Grants;
  readonly #purges: Purges;
  readonly #histories: Histories;
  readonly #captured: CaptureBuffer;
  readonly #ingest: Ingest;
  /** By rack, for as long as its policy counts. */
  readonly #redactors = new Map<RackId, { readonly policy: Policy; readonly redactor: Redactor }>();
  /** The version of the control database that was looked at last. */
  #seen: number;
  #lastPurge: Promise<unknown> = Promise.resolve();
  #timers: readonly NodeJS.Timeout[] = [];
  readonly #working = new Set<Promise<unknown>>();
  #closing: Promise<void> | undefined;

  private constructor(
    options: RecorderOptions,
    control: ControlDatabase,
    settings: ReadonlyMap<RackId, KnownSettings>,
    seen: number,
  ) {
    const { folder, worker, onFault } = options;
    const secrets = [...options.secrets];
    this.#options = options;
    this.#secrets = secrets;
    this.#control = control;
    this.#seen = seen;
    this.#review = new Review(control, onFault);
    this.#grants = new Grants(control, this.#review, options.findPeer);
    this.#purges = new Purges(control, this.#review);
    this.#histories = new Histories({ folder, secrets, worker, settings, time: () => control.time() });
    this.#captured = new CaptureBuffer({ store: (rack, events) => this.#add(rack, 'host', events), onFault });
    this.#ingest = new Ingest({
      grants: this.#grants,
      review: this.#review,
      add: async (rack, source, events) => {
        await this.#settle(rack, await control.read((db) => settingsOf(db, rack)));
        return await this.#add(rack, source, events);
      },
    });
    this.sink = captureSink({
      contentOf: (rack) => this.contentOf(rack),
      record: (rack, events) => this.record(rack, events),
    });
    this.transcripts = {
      readable: (by) => this.#work(() => this.#readable(by)),
      read: (by, read, rows) => this.#work(() => this.#tellRead(by, read, rows)),
    };
  }

  /** @throws StoreError */
  static async open(options: RecorderOptions): Promise<Recorder> {
    const { folder, worker, now = () => new Date() } = options;
    makeFolder(folder);
    const control = await ControlDatabase.open(join(folder, 'recorder.db'), now);
    try {
      const seen = await control.version();
      const recorder = new Recorder(options, control, await control.read(allSettings), seen);
      if (worker !== undefined) await recorder.#begin();
      return recorder;
    } catch (error) {
      await control.close();
      throw error;
    }
  }

  async #begin(): Promise<void> {
    for (const intent of await this.#purges.unfinished()) {
      await this.#purgeNow(intent);
      this.#options.onNotice(`finished the purge of the rack '${intent.rack}' that was begun ${intent.at}`);
    }
    const regularly = (what: string, work: () => Promise<void>) => () => {
      if (this.#closing) return;
      this.#work(work).catch((error: unknown) => this.#options.onFault(`${what}: ${errorMessage(error)}`));
    };
    const sweep = regularly('events that expired may still be there', () => this.#sweep());
    const look = regularly('what was changed beside the host is not known', () => this.#look());
    this.#timers = [setInterval(look, lookEvery), setInterval(sweep, sweepEvery)];
    for (const timer of this.#timers) timer.unref();
    sweep();
  }

  /** What is kept in an armed rack; undefined where it is not armed. From memory, half a second old at most. */
  contentOf(rack: RackId): Content | undefined {
    const settings = this.#histories.settingsOf(rack);
    return settings?.armed && !this.#closing ? settings.policy.content : undefined;
  }

  /**
   * A text as the rack's rules would have it kept, for what leaves the host on another way.
   * @throws TooSlow
   */
  redact(text: string, rack: RackId): string {
    const { policy } = this.#histories.settingsOf(rack) ?? { policy: defaultPolicy };
    const known = this.#redactors.get(rack);
    const current =
      known?.policy === policy ? known : { policy, redactor: new Redactor(policy.redact, this.#secrets) };
    this.#redactors.set(rack, current);
    return current.redactor.redact(text, new Allowance(patternsMs)).text;
  }

  /** One more text that is not stored from now on, whatever a policy says. */
  keepOut(secret: string): void {
    if (this.#secrets.includes(secret)) return;
    this.#secrets.push(secret);
    this.#redactors.clear();
    // What was captured before it is redacted with it, too: it goes to the thread later. A thread that ended gets it when it
    // starts again.
    this.#histories.keepOut(secret).catch(() => undefined);
  }

  /** Best effort: nobody waits, nothing is thrown, and what cannot be stored in time is dropped, and told. */
  record(rack: RackId, events: readonly NewEvent[]): void {
    if (this.contentOf(rack) !== undefined) this.#captured.take(rack, events);
  }

  racks(): Answer<'racks'> {
    return this.#work(async () => {
      const settings = await this.#control.read(allSettings);
      return [...settings].map(([rack, known]) => this.#rackOf(rack, known));
    });
  }

  rack(id: string): Answer<'rack'> {
    return this.#work(async () => {
      const rack = knownRack(id);
      return this.#rackOf(rack, await this.#control.read((db) => settingsOf(db, rack)));
    });
  }

  change(...[id, change, by]: Given<'change'>): Answer<'change'> {
    return this.#work(async () => {
      const rack = knownRack(id);
      const settings = await changeSettings(this.#control, this.#review, rack, change, by);
      await this.#settle(rack, settings);
      if (change.policy?.retention !== undefined) await this.#sweepRack(rack);
      return this.#rackOf(rack, settings);
    });
  }

  grants(rack?: string): Answer<'grants'> {
    return this.#work(async () => this.#grants.list(rack === undefined ? undefined : knownRack(rack)));
  }

  grant(...[request, by]: Given<'grant'>): Answer<'grant'> {
    return this.#work(async () => {
      const rack = knownRack(request.rack);
      // What was said before it is recorded before it.
      await this.#captured.settled();
      const after = request.includesPast ? undefined : this.#histories.endOf(rack);
      return await this.#grants.make({ ...request, rack, after }, by);
    });
  }

  revokeGrantsTo(...[to, by]: Given<'revokeGrantsTo'>): Answer<'revokeGrantsTo'> {
    return this.#work(() => this.#grants.revokeTo(to, by));
  }

  revokeGrant(...[id, by]: Given<'revokeGrant'>): Answer<'revokeGrant'> {
    return this.#work(() => this.#grants.revoke(id, by));
  }

  mintToken(...[request, by]: Given<'mintToken'>): Answer<'mintToken'> {
    return this.#work(async () => this.#grants.mint({ ...request, rack: knownRack(request.rack) }, by));
  }

  revokeToken(...[id, by]: Given<'revokeToken'>): Answer<'revokeToken'> {
    return this.#work(() => this.#grants.revokeToken(id, by));
  }

  review(...[{ rack, after, limit }]: Given<'review'>): Answer<'review'> {
    return this.#work(async () =>
      this.#review.list({ after, limit, rack: rack === undefined ? undefined : knownRack(rack) }),
    );
  }

  ingest(...[token, events, by]: Given<'ingest'>): Answer<'ingest'> {
    return this.#work(() => this.#ingest.take(token, events, by));
  }

  purge(...[id, by]: Given<'purge'>): Answer<'purge'> {
    return this.#work(async () => {
      const rack = knownRack(id);
      // One after the other: each is of the history that the one before it left.
      const done = this.#lastPurge.then(() => this.#purge(rack, by));
      this.#lastPurge = done.catch(() => undefined);
      return { ...(await done), verified: true };
    });
  }

  sweep(): Answer<'sweep'> {
    return this.#work(() => this.#sweep());
  }

  close(): Answer<'close'> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    await Promise.allSettled(this.#working);
    await this.#captured.settled();
    await this.#histories.close();
    await this.#review.close();
    await this.#control.close();
  }

  /** What the storage refuses is a refusal of the recorder. */
  async #work<T>(work: () => Promise<T>): Promise<T> {
    if (this.#closing)
      throw new RecorderError(
        'unavailable',
        'recorder_closed',
        'The recorder is closed: the host is stopping.',
      );
    const working = work();
    this.#working.add(working);
    try {
      return await working;
    } catch (error) {
      throw error instanceof StoreError ? refusalOf(error) : error;
    } finally {
      this.#working.delete(working);
    }
  }

  async #add(rack: RackId, source: string, events: readonly NewEvent[]): Promise<Added | undefined> {
    const added = await this.#histories.add(rack, source, events);
    if (added) this.#tellExpired(rack, added.expired);
    return added;
  }

  /** What was said until now was said under what counted until now. */
  #settle(rack: RackId, settings: KnownSettings): Promise<void> {
    return this.#histories.settle(rack, settings, () => this.#captured.flush());
  }

  async #purge(rack: RackId, by: string): Promise<Tombstone> {
    const generation = (this.#histories.generationOf(rack) ?? 0) + 1;
    const intent = await this.#purges.intend({ rack, generation, by }, this.#foundIn(rack));
    try {
      return await this.#purgeNow(intent);
    } catch (error) {
      // Nothing was removed: what comes now must not be, either.
      const current = this.#histories.generationOf(rack);
      if (current !== undefined && current < generation) await this.#purges.withdraw(intent);
      throw error;
    }
  }

  /** A damaged history can be purged, too. */
  #foundIn(rack: RackId) {
    try {
      return this.#histories.totalsOf(rack);
    } catch {
      return nothing;
    }
  }

  async #purgeNow(intent: Intent): Promise<Tombstone> {
    this.#captured.flush();
    const removed = await this.#histories.purge(intent.rack, intent.generation);
    return await this.#purges.done(intent, removed);
  }

  async #sweep(): Promise<void> {
    await this.#look();
    // Of purges that failed half-way the rest is done, and nothing that came later is touched.
    await this.#lastPurge;
    for (const intent of await this.#purges.unfinished())
      if ((this.#histories.generationOf(intent.rack) ?? 0) >= intent.generation) await this.#purgeNow(intent);
    for (const rack of this.#histories.racks()) await this.#sweepRack(rack);
  }

  async #sweepRack(rack: RackId): Promise<void> {
    this.#tellExpired(rack, await this.#histories.sweep(rack));
  }

  #tellExpired(rack: RackId, { events, bytes }: { readonly events: number; readonly bytes: number }): void {
    if (events > 0) this.#review.writeLater({ by: 'host', act: 'expired', rack, details: { events, bytes } });
  }

  /** What somebody beside the host changed counts for what is captured, too. */
  async #look(): Promise<void> {
    const version = await this.#control.version();
    if (version === this.#seen) return;
    for (const [rack, settings] of await this.#control.read(allSettings)) await this.#settle(rack, settings);
    this.#seen = version;
  }

  async #readable(by: string): ReturnType<Transcripts['readable']> {
    const granted = await this.#grants.readable(by);
    const readable = racks.flatMap((rack) => {
      const generation = granted.has(rack) ? this.#histories.generationOf(rack) : undefined;
      if (generation === undefined) return [];
      const after = hiddenIn(generation, granted.get(rack));
      const path = historyPath(this.#options.folder, rack, generation);
      return [{ rack, path, ...(after > 0 ? { after } : {}) }];
    });
    return { racks: readable, withheld: racks.filter((rack) => !granted.has(rack)) };
  }

  async #tellRead(by: string, read: readonly RackId[], rows: number): Promise<void> {
    await Promise.all(
      read.map((rack) => this.#review.write({ by, act: 'read', rack, details: { rows, racks: read } })),
    );
  }

  #rackOf(id: RackId, { armed, policy, changedAt, changedBy }: KnownSettings): Rack {
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
    const reason = plainReason(cause);
    throw new StoreError('storage_failed', `the recorder's folder ${folder} cannot be used: ${reason}`, {
      cause,
    });
  }
}

/** @throws RecorderError not_found */
function knownRack(id: string): RackId {
  const known = racks.find((rack) => rack === id);
  if (known !== undefined) return known;
  throw new RecorderError(
    'not_found',
    'unknown_rack',
    `There is no rack '${id.slice(0, 80)}'${didYouMean(id, racks, (name) => `'${name}'`)}; there are ${racks.join(', ')}.`,
  );
}

function refusalOf(cause: StoreError): RecorderError {
  const unsure = cause.code === 'storage_unsure';
  const message = `${cause.message}.${unsure ? ' It may be done all the same; events that are sent again count once.' : ''}`;
  return new RecorderError('unavailable', cause.code, message, { cause });
}
