import { UsageError } from '../../config/usage.ts';
import { errorMessage } from '../../util/error-message.ts';
import { pluralize } from '../../words/count.ts';
import { describeChanges } from '../config/config-changes.ts';
import { digestOf } from '../config/config-digest.ts';
import type { ConfigVersions } from '../config/config-versions.ts';
import type { LiveConfig } from '../config/live-config.ts';
import { findRemarks } from '../config/remarks.ts';
import type { GatewayConfig } from '../config/types.ts';
import type { ChangeLog, LoggedValues } from '../ledger/change-log.ts';
import type { ConfigState, NoticeHandler } from '../../tracing/index.ts';

/** Interval in ms at which the files and the newest version are read again. */
const defaultIntervalMs = 5000;

/** Faults of a refused configuration in the log of changes; its log has all. */
const maxLoggedFaults = 20;

/** What a reload did. */
export type ReloadResult =
  | { readonly outcome: 'replaced' | 'unchanged'; readonly version: number }
  /** Nothing changed, for all of these reasons. */
  | { readonly outcome: 'refused'; readonly faults: readonly string[] };

export interface ConfigReloaderOptions {
  readonly live: LiveConfig;
  readonly versions: ConfigVersions;
  /** Reads the files. Rejects with `UsageError` with every fault. */
  readonly read: () => Promise<GatewayConfig>;
  /** Called after the configuration was replaced. */
  readonly onReplaced: (next: GatewayConfig) => void;
  /** Called with messages for the operator. */
  readonly onNotice: NoticeHandler;
  /** Gets each replacement and each refusal that is reported. */
  readonly changeLog?: Pick<ChangeLog, 'note'>;
  readonly intervalMs?: number;
}

/**
 * Replaces the configuration of a running gateway: on request, and when what its files say changed. They are read at an
 * interval, because watching them misses a change of what a symbolic link names and of the files with keys. The whole
 * configuration is replaced at once, or nothing is.
 */
export class ConfigReloader {
  readonly #options: ConfigReloaderOptions;
  readonly #reloads = { replaced: 0, unchanged: 0, refused: 0 };
  #version = 0;
  #isNewest = true;
  /** Whether the database numbers the configuration in force; the timer tries until it does. */
  #isClaimed = false;
  #digest: string;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<unknown> = Promise.resolve();
  /** What the timer read last, where it differs from the configuration: a file that is being written changes once more. */
  #lastRead: string | undefined;
  /** Faults of the last reading, since when, and whether they were reported. */
  #faults:
    | { readonly faults: readonly string[]; readonly at: string; readonly isReported: boolean }
    | undefined;
  /** The newest version of other gateways that was reported. */
  #reportedVersion = 0;

  constructor(options: ConfigReloaderOptions) {
    this.#options = options;
    this.#digest = digestOf(options.live.current);
  }

  get state(): ConfigState {
    return {
      version: this.#version,
      isNewest: this.#isNewest,
      refused: this.#faults && { at: this.#faults.at, faults: this.#faults.faults },
      reloads: this.#reloads,
    };
  }

  /** Numbers the present configuration, and begins to read the files. */
  async start(): Promise<void> {
    const { intervalMs = defaultIntervalMs } = this.#options;
    await this.#claim();
    this.#timer = setInterval(() => void this.#serialize(() => this.#check()), intervalMs).unref();
  }

  /** Stops reading the files. Resolves when no reload is under way. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#running;
  }

  /** Reads the files and replaces the configuration. Reports what it did. */
  reload(): Promise<ReloadResult> {
    return this.#serialize(async () => {
      const { onNotice } = this.#options;
      const next = await this.#read();
      const result = Array.isArray(next) ? refused(next) : await this.#apply(next);
      this.#reloads[result.outcome]++;
      if (result.outcome === 'unchanged') {
        onNotice('the configuration was read again and has not changed', {
          code: 'config.unchanged',
          version: this.#version,
        });
        this.#isClaimed = false;
        await this.#claim();
      }
      if (result.outcome === 'refused') await this.#reportFaults(result.faults);
      return result;
    });
  }

  #serialize<T>(task: () => Promise<T>): Promise<T> {
    const result = this.#running.then(task);
    this.#running = result.catch(() => undefined);
    return result;
  }

  /** The configuration of the files, or its faults. */
  async #read(): Promise<GatewayConfig | string[]> {
    try {
      return await this.#options.read();
    } catch (error) {
      return error instanceof UsageError ? [...error.faults] : [errorMessage(error)];
    }
  }

  async #apply(next: GatewayConfig): Promise<ReloadResult> {
    const { live, onReplaced, onNotice } = this.#options;
    const digest = digestOf(next);
    if (digest === this.#digest) {
      this.#faults = undefined;
      return { outcome: 'unchanged', version: this.#version };
    }
    const before = live.current;
    // A file that was truncated, not a wish.
    if (next.models.length === 0 && before.models.length > 0)
      return refused(['it has no models; stop the gateway where it is to serve none']);
    const faults = live.replace(next);
    if (faults.length > 0) return refused(faults);
    this.#faults = undefined;
    onReplaced(next);
    this.#digest = digest;
    for (const remark of findRemarks(next)) onNotice(remark);
    // Served from now on, also where the database cannot say so.
    this.#isClaimed = false;
    await this.#claim();
    const size = `${pluralize(next.models.length, 'model')} of ${pluralize(next.providers.length, 'provider')}`;
    const changes = describeChanges(before, next);
    onNotice(
      `${this.#isClaimed ? `version ${this.#version} of the` : 'a new'} configuration is in force: ${size}; ${changes}`,
      { code: 'config.replaced', version: this.#version, changes },
    );
    await this.#log('config reload', { version: this.#version, changes });
    return { outcome: 'replaced', version: this.#version };
  }

  /** Makes the present configuration the newest version, unless it was already. A failure is reported. */
  async #claim(): Promise<void> {
    if (this.#isClaimed) return;
    try {
      this.#version = await this.#options.versions.claim(this.#digest);
      this.#isNewest = true;
      this.#isClaimed = true;
    } catch (error) {
      this.#options.onNotice(
        `the version of the configuration in force cannot be stored: ${errorMessage(error)}`,
      );
    }
  }

  /** What the timer does. */
  async #check(): Promise<void> {
    const { versions, onNotice } = this.#options;
    try {
      const next = await this.#read();
      const isSettled = Array.isArray(next) || this.#isReadTwice(digestOf(next));
      if (isSettled) {
        const result = Array.isArray(next) ? refused(next) : await this.#apply(next);
        if (result.outcome === 'replaced') this.#reloads.replaced++;
        if (result.outcome === 'refused') await this.#noteFaults(result.faults);
      }
      await this.#claim();
      if (!this.#isClaimed) return;
      const newest = await versions.latest();
      this.#isNewest = newest === undefined || newest.digest === this.#digest;
      if (newest === undefined || newest.version === this.#reportedVersion) return;
      if (this.#isNewest) this.#version = newest.version;
      else
        onNotice(
          `another gateway of this database serves version ${newest.version} of the configuration, which differs from this one's version ${this.#version}: give both the same file`,
        );
      this.#reportedVersion = newest.version;
    } catch (error) {
      onNotice(`the version of the configuration cannot be read: ${errorMessage(error)}`);
    }
  }

  /** Whether the timer read the same at its last reading, or what is in force. */
  #isReadTwice(digest: string): boolean {
    const isSame = digest === this.#digest || digest === this.#lastRead;
    this.#lastRead = digest;
    return isSame;
  }

  /** Reports faults that are still there at the second reading. */
  async #noteFaults(faults: readonly string[]): Promise<void> {
    const known = this.#faultsOf(faults);
    if (!known) this.#faults = { faults, at: new Date().toISOString(), isReported: false };
    else if (!known.isReported) {
      this.#reloads.refused++;
      await this.#reportFaults(faults);
    }
  }

  async #reportFaults(faults: readonly string[]): Promise<void> {
    const at = this.#faultsOf(faults)?.at ?? new Date().toISOString();
    this.#faults = { faults, at, isReported: true };
    const version = this.#version;
    this.#options.onNotice(
      `the configuration stays at version ${version}, because the new one cannot be used: ${faults.join('; ')}`,
      { code: 'config.refused', version, faults: faults.join('; ') },
    );
    await this.#log('config refused', { version, faults: faults.slice(0, maxLoggedFaults) });
  }

  /** What is known about these faults; undefined: they are new. */
  #faultsOf(faults: readonly string[]) {
    return this.#faults?.faults.join('\n') === faults.join('\n') ? this.#faults : undefined;
  }

  /** A database that is out does not keep a configuration from being used. */
  async #log(action: string, after: LoggedValues): Promise<void> {
    try {
      await this.#options.changeLog?.note({ subject: 'configuration', action, after });
    } catch (error) {
      this.#options.onNotice(`the log of changes lacks a ${action}: ${errorMessage(error)}`);
    }
  }
}

const refused = (faults: readonly string[]): ReloadResult => ({ outcome: 'refused', faults });
