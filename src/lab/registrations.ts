/** Registered kernels of this process, and the history of registrations and benches that outlives it. */
import { safeErrorReason } from '../words/plain-reason.ts';
import { summarizeList } from '../util/summarize-list.ts';
import { benchRecordOf, summarizeBench } from './bench-records.ts';
import { programDigest } from './digest.ts';
import { Failures } from './failures.ts';
import type { KernelHistory } from './kernel-history.ts';
import { KernelRegistry, type RegisteredKernel } from './registry.ts';
import { rejectionReason } from './state-reason.ts';
import {
  type BenchEvidence,
  type BenchRecord,
  type BenchSummary,
  type KernelRegistration,
  type KernelRegistrationReport,
  type KernelVersionDetail,
  type KernelVersions,
  LabError,
} from './types.ts';

/** A bench of one round measures the components, without an interval. */
const minRecordedRounds = 2;

export class Registrations {
  readonly #history: KernelHistory | undefined;
  readonly #onWarning: (message: string) => void;
  readonly #registry = new KernelRegistry();
  /** What was found wrong of a program, so that other random inputs do not let it pass. */
  readonly #failures = new Failures();

  /** @param history without it, registrations end with this process */
  constructor(history: KernelHistory | undefined, onWarning: (message: string) => void) {
    this.#history = history;
    this.#onWarning = onWarning;
  }

  all(): readonly RegisteredKernel[] {
    return this.#registry.all();
  }

  /** @throws LabError `unknown_kernel` */
  require(name: string): RegisteredKernel {
    const kernel = this.#registry.get(name);
    if (kernel) return kernel;
    const names = this.#registry.all().map(({ registration }) => registration.name);
    throw new LabError(
      'unknown_kernel',
      `There is no registered kernel '${name}'; registered kernels: ${names.join(', ') || 'none'}.`,
    );
  }

  /** The seed of the inputs with which a program failed. */
  failedSeedOf(program: string): number | undefined {
    return this.#failures.seedOf(program);
  }

  /**
   * Replaces an earlier registration of the same name.
   * @param environment of the check, see `KernelVersion`
   */
  async add(
    { registration, report }: { registration: KernelRegistration; report: KernelRegistrationReport },
    { environment, isBound }: { environment: () => Promise<string>; isBound: (name: string) => boolean },
  ): Promise<void> {
    const program = programDigest(registration);
    this.#failures.record(program, report);
    const at = new Date().toISOString();
    this.#registry.set({ registration, report, program, at }, isBound);
    await this.#record(async (history) => {
      await history.add({ at, registration, report, environment: await environment() });
    });
  }

  async delete(name: string): Promise<void> {
    this.#registry.delete(name);
    await this.#record((history) => history.delete(name));
  }

  /** Restores what earlier processes registered. Kernels that were checked in another environment are stale. */
  async restore(currentEnvironment: () => Promise<string>): Promise<void> {
    await this.#record(async (history) => {
      const environment = await currentEnvironment();
      for (const version of await history.newest()) {
        const { registration, report, at } = version;
        const program = programDigest(registration);
        this.#failures.record(program, report);
        const stale = version.environment === environment ? {} : { isStale: true as const };
        this.#registry.set({ registration, report, program, at, ...stale }, () => false);
      }
    });
  }

  /** The registrations of a name, or of the name that has or had a digest, newest first. @throws LabError `unknown_kernel` */
  async versions(nameOrDigest: string): Promise<KernelVersions> {
    const name = await this.#nameOf(nameOrDigest);
    const current = this.#registry.get(name);
    const stored = this.#history ? await this.#history.versions(name) : current ? [current] : [];
    if (stored.length === 0) this.require(name);
    const benches = (await this.#history?.benches(name)) ?? [];
    return {
      name,
      versions: stored.map(({ at, registration, report }, index) => {
        const replacedAt = stored[index - 1]?.at;
        const reason = rejectionReason(report);
        return {
          at,
          digest: report.digest,
          accepted: report.accepted,
          ...(reason === undefined ? {} : { reason }),
          registration,
          benches: benches.filter((one) => one.at >= at && (replacedAt === undefined || one.at < replacedAt)),
        };
      }),
    };
  }

  /** A registration with its report. @throws LabError `unknown_kernel` */
  async version(name: string, at: string): Promise<KernelVersionDetail> {
    const current = this.#registry.get(name);
    const found = current?.at === at ? current : await this.#history?.version(name, at);
    if (!found) {
      const { versions } = await this.versions(name);
      const times = versions.map((one) => one.at);
      throw new LabError(
        'unknown_kernel',
        `The kernel '${name}' has no registration of '${at}'; its registrations: ${summarizeList(times)}.`,
      );
    }
    const { registration, report } = found;
    return { at, registration, report };
  }

  /** Keeps a finished bench, if it has intervals. */
  async addBench(evidence: BenchEvidence, about: Parameters<typeof benchRecordOf>[1]): Promise<void> {
    if (evidence.rounds.length < minRecordedRounds) return;
    const record = benchRecordOf(evidence, about);
    await this.#record((history) => history.addBench(record, summarizeBench(record)));
  }

  async benches(): Promise<readonly BenchSummary[]> {
    return (await this.#history?.benchSummaries()) ?? [];
  }

  /** @throws LabError `unknown_bench` */
  async bench(id: string): Promise<BenchRecord> {
    const record = await this.#history?.benchRecord(id);
    if (!record)
      throw new LabError('unknown_bench', `There is no finished bench '${id}' with its raw times.`);
    return record;
  }

  /** The name itself, or that of the kernel that has or had a digest; names have no colon. */
  async #nameOf(nameOrDigest: string): Promise<string> {
    if (!nameOrDigest.includes(':')) return nameOrDigest;
    const current = this.#registry.all().find(({ report }) => report.digest === nameOrDigest);
    return current?.registration.name ?? (await this.#history?.nameOf(nameOrDigest)) ?? nameOrDigest;
  }

  /** A history that cannot be written or read does not keep kernels from being used. */
  async #record(work: (history: KernelHistory) => Promise<void>): Promise<void> {
    if (!this.#history) return;
    try {
      await work(this.#history);
    } catch (error) {
      this.#onWarning(`the history of lab kernels cannot be used: ${safeErrorReason(error)}`);
    }
  }
}
