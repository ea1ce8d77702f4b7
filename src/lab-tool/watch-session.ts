import type { BindRequest } from '../lab/types.ts';
import { raceAbort } from '../util/race-abort.ts';
import { TemporaryBindings } from './temporary-bindings.ts';
import type { LabClient } from './client.ts';
import { HostError } from '../host-client/errors.ts';
import { FileError } from '../terminal/file-error.ts';
import { FileWatcher } from './file-watcher.ts';
import { registerLocalKernel, type GateOutcome, loadKernels } from './register-kernel.ts';
import type { KernelFlags } from './kernel-flags.ts';
import type { WatchView } from './watch-events.ts';

interface WatchOptions {
  readonly files: readonly string[];
  readonly flags: KernelFlags;
  /** Span to bind every accepted kernel to, instead of its globs. */
  readonly span?: string | undefined;
}

/** Interval at which an idle session checks whether the host still has its kernels. */
const checkIntervalMs = 2000;
const retryMs = 1000;

/** Checks files on every save, binds and benches their kernels, and continues after errors of the host or of a file. */
export class WatchSession {
  readonly #client: LabClient;
  readonly #options: WatchOptions;
  readonly #view: WatchView;
  readonly #stopSignal: AbortSignal;
  readonly #bindings: TemporaryBindings;
  readonly #watcher: FileWatcher;
  /** Files to check, in the order of their saves. */
  readonly #queue: Set<string>;
  /** Last outcomes by file. */
  readonly #outcomes = new Map<string, readonly GateOutcome[]>();
  readonly #quarantined = new Set<string>();
  /** Kernels that were bound since the last bench. */
  readonly #toBench = new Set<string>();
  /** Current operation. A save of `file` aborts it; without `file`, any save does. */
  #current: { readonly abort: AbortController; readonly file: string | undefined } | undefined;
  #wake: () => void = () => undefined;

  constructor(client: LabClient, options: WatchOptions, view: WatchView, stopSignal: AbortSignal) {
    this.#client = client;
    this.#options = options;
    this.#view = view;
    this.#stopSignal = stopSignal;
    this.#bindings = new TemporaryBindings(client);
    this.#queue = new Set(options.files);
    this.#watcher = new FileWatcher((file, presence) => {
      if (presence === 'gone') {
        this.#queue.delete(file);
        this.#interrupt(file);
        view({ event: 'file_unreadable', file, message: 'the file does not exist any more; waiting for it' });
      } else this.#enqueue(file);
    });
    stopSignal.addEventListener('abort', () => {
      this.#current?.abort.abort();
      this.#wake();
    });
  }

  /**
   * Runs until the stop signal, then restores the bindings. Throws `UsageError` for flags that a file does not support.
   */
  async run(): Promise<void> {
    const { files } = this.#options;
    this.#view({ event: 'start', url: this.#client.url, files });
    try {
      for (const file of files) await this.#watcher.add(file);
      while (!this.#stopSignal.aborted) await this.#runNext();
    } finally {
      this.#watcher.close();
      const { undone, failures } = await this.#bindings.restore();
      this.#view({ event: 'stop', unbound: undone, failures });
    }
  }

  #enqueue(file: string): void {
    this.#queue.add(file);
    this.#interrupt(file);
    this.#wake();
  }

  #interrupt(file: string): void {
    if (this.#current && (this.#current.file === undefined || this.#current.file === file))
      this.#current.abort.abort();
  }

  async #runNext(): Promise<void> {
    const [file] = this.#queue;
    const shouldBench = file === undefined && this.#toBench.size > 0;
    if (file === undefined && !shouldBench) {
      await this.#sleep(checkIntervalMs);
      if (this.#queue.size > 0 || this.#stopSignal.aborted) return;
    }
    const abort = new AbortController();
    this.#current = { abort, file };
    try {
      if (file !== undefined) {
        this.#queue.delete(file);
        await this.#gate(file, abort.signal);
      } else if (shouldBench) await this.#bench(abort.signal);
      else await this.#checkHost(abort.signal);
    } catch (error) {
      // A newer save is already queued.
      if (abort.signal.aborted) return;
      if (!(error instanceof HostError)) throw error;
      if (file !== undefined) this.#queue.add(file);
      await this.#awaitHost(error);
    } finally {
      this.#current = undefined;
    }
  }

  async #gate(file: string, signal: AbortSignal): Promise<void> {
    this.#view({ event: 'gating', file });
    let loadedFile: Awaited<ReturnType<typeof loadKernels>>;
    try {
      // Loading a module may never finish.
      loadedFile = await raceAbort(loadKernels(file, this.#options.flags), signal);
    } catch (error) {
      if (!(error instanceof FileError)) throw error;
      this.#view({ event: 'file_unreadable', file, message: error.message });
      return;
    }
    await this.#watcher.setDependencies(file, loadedFile.dependencies);
    const outcomes: GateOutcome[] = [];
    for (const kernel of loadedFile.kernels)
      outcomes.push(await registerLocalKernel(this.#client, file, kernel, signal));
    for (const { kernel } of outcomes) this.#quarantined.delete(kernel);
    this.#outcomes.set(file, outcomes);
    this.#view({ event: 'gate', file, outcomes });
    for (const outcome of outcomes) await this.#bind(outcome, signal);
  }

  async #bind({ file, kernel, accepted, bind }: GateOutcome, signal: AbortSignal): Promise<void> {
    const { span } = this.#options;
    if (!accepted || (span === undefined && bind.length === 0)) return;
    const request: BindRequest = { kernel, ...(span === undefined ? { components: bind } : { span }) };
    try {
      const { components } = await this.#bindings.bind(request, signal);
      this.#view({ event: 'bound', file, kernel, components });
      this.#toBench.add(kernel);
    } catch (error) {
      if (!(error instanceof HostError) || error.isTransient) throw error;
      this.#view({ event: 'bind_refused', file, kernel, message: error.message });
    }
  }

  async #bench(signal: AbortSignal): Promise<void> {
    this.#view({ event: 'benching' });
    try {
      // What else is bound, by this session or before it, runs in both arms: the result is that of the change.
      const result = await this.#client.bench({ mode: 'quick', kernels: [...this.#toBench] }, signal);
      this.#toBench.clear();
      this.#view({ event: 'bench', result });
    } catch (error) {
      if (signal.aborted || !(error instanceof HostError) || error.isTransient) throw error;
      this.#toBench.clear();
      this.#view({ event: 'bench_failed', message: error.message });
    }
  }

  /** Checks the host: if it lost the kernels, it was restarted. Also reports kernels that it quarantined. */
  async #checkHost(signal: AbortSignal): Promise<void> {
    const { kernels } = await this.#client.parts(signal);
    for (const [file, outcomes] of this.#outcomes)
      for (const { kernel, accepted } of outcomes) {
        if (!accepted) continue;
        const state = (kernels ?? []).find(({ name }) => name === kernel)?.state;
        if (state === undefined) {
          this.#bindings.forget();
          this.#queue.add(file);
        } else if (state === 'quarantined' && !this.#quarantined.has(kernel)) {
          this.#quarantined.add(kernel);
          this.#view({ event: 'quarantined', file, kernel });
        }
      }
  }

  async #awaitHost(error: HostError): Promise<void> {
    // Waiting does not help against rejected credentials.
    if (!error.isTransient) throw error;
    this.#view({ event: 'host_gone', message: error.message });
    while (!this.#stopSignal.aborted) {
      await this.#sleep(retryMs);
      try {
        await this.#client.parts(this.#stopSignal);
        break;
      } catch (retryError) {
        if (!this.#stopSignal.aborted && !(retryError instanceof HostError && retryError.isTransient))
          throw retryError;
      }
    }
    if (this.#stopSignal.aborted) return;
    this.#view({ event: 'host_back' });
    await this.#checkHost(this.#stopSignal);
  }

  /** Resolves after the time, on a save, or on stop. */
  async #sleep(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
      if (this.#stopSignal.aborted) this.#wake();
    });
  }
}
