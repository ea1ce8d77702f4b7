import { UsageError } from '../../config/usage.ts';
import { errorMessage } from '../../util/error-message.ts';
import { pluralize } from '../../words/count.ts';
import { describeChanges } from '../config/config-changes.ts';
import { digestOf } from '../config/config-digest.ts';
import type { ConfigVersions } from '../config/config-versions.ts';
import type { LiveConfig } from '../config/live-config.ts';
import { findRemarks } from '../config/remarks.ts';
import type { GatewayConfig } from '../config/types.ts';
import type { ConfigState } from '../../tracing/index.ts';

/** Interval in ms at which the files and the newest version are read again. */
const defaultIntervalMs = 5000;

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
  readonly onNotice: (message: string) => void;
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
  /** Faults of the last reading by the timer, and whether they were reported. */
  #faults: { readonly text: string; readonly isReported: boolean } | undefined;
  /** The newest version of other gateways that was reported. */
  #reportedVersion = 0;

  constructor(options: ConfigReloaderOptions) {
    this.#options = options;
    this.#digest = digestOf(options.live.current);
  }

  get state(): ConfigState {
    return { version: this.#version, isNewest: this.#isNewest, reloads: this.#reloads };
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
        onNotice('the configuration was read again and has not changed');
        this.#isClaimed = false;
        await this.#claim();
      }
      if (result.outcome === 'refused') this.#reportFaults(result.faults);
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
    onNotice(
      `${this.#isClaimed ? `version ${this.#version} of the` : 'a new'} configuration is in force: ${size}; ${describeChanges(before, next)}`,
    );
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
        if (result.outcome === 'refused') this.#noteFaults(result.faults);
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
  #noteFaults(faults: readonly string[]): void {
    const text = faults.join('\n');
    if (this.#faults?.text !== text) this.#faults = { text, isReported: false };
    else if (!this.#faults.isReported) {
      this.#reloads.refused++;
      this.#reportFaults(faults);
    }
  }

  #reportFaults(faults: readonly string[]): void {
    this.#faults = { text: faults.join('\n'), isReported: true };
    this.#options.onNotice(
      `the configuration stays at version ${this.#version}, because the new one cannot be used: ${faults.join('; ')}`,
    );
  }
}

const refused = (faults: readonly string[]): ReloadResult => ({ outcome: 'refused', faults });
