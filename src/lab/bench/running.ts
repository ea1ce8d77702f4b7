import { randomBytes } from 'node:crypto';
import { type BenchProgress, LabError, type RunningBench } from '../types.ts';

interface Entry {
  readonly startedAt: Date;
  readonly controller: AbortController;
  progress: BenchProgress;
}

/** The benches that run or wait for the device. */
export class RunningBenches {
  readonly #entries = new Map<string, Entry>();

  list(): RunningBench[] {
    return [...this.#entries].map(([id, { startedAt, progress }]) => ({
      id,
      started_at: startedAt.toISOString(),
      stage: progress.stage,
      ...(progress.stage === 'round' ? { round: progress.round, most: progress.most } : {}),
    }));
  }

  /** @throws LabError `unknown_bench` */
  cancel(id: string): void {
    const entry = this.#entries.get(id);
    if (!entry) {
      const ids = [...this.#entries.keys()].join(', ') || 'none';
      throw new LabError('unknown_bench', `No bench '${id}' is running; running benches: ${ids}.`);
    }
    entry.controller.abort(new LabError('bench_cancelled', `The bench '${id}' was cancelled.`));
  }

  /** Runs `work`, whose signal also ends it when the bench is cancelled. */
  async run<T>(
    { signal, onProgress }: { signal: AbortSignal; onProgress: (progress: BenchProgress) => void },
    work: (id: string, signal: AbortSignal, onProgress: (progress: BenchProgress) => void) => Promise<T>,
  ): Promise<T> {
    const id = `bench-${randomBytes(6).toString('hex')}`;
    const controller = new AbortController();
    const entry: Entry = { startedAt: new Date(), controller, progress: { stage: 'waiting', id } };
    this.#entries.set(id, entry);
    const report = (progress: BenchProgress) => {
      entry.progress = progress;
      onProgress(progress);
    };
    try {
      report(entry.progress);
      return await work(id, AbortSignal.any([signal, controller.signal]), report);
    } finally {
      this.#entries.delete(id);
    }
  }
}
