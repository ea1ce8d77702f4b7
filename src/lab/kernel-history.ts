import type { BenchRecord, BenchSummary, KernelRegistration, KernelRegistrationReport } from './types.ts';

/** A registration of a kernel. */
export interface KernelVersion {
  /** RFC 3339. */
  readonly at: string;
  readonly registration: KernelRegistration;
  readonly report: KernelRegistrationReport;
  /** Adapter, driver, versions and model of the check, as canonical JSON: a check holds where they are the same. */
  readonly environment: string;
}

/** A bench in which a kernel was bound. */
export interface KernelBench {
  readonly at: string;
  /** All kernels that it measured together. */
  readonly kernels: readonly string[];
  readonly verdict: string;
  readonly rounds: number;
  readonly ratio_low: number | null;
  readonly ratio_high: number | null;
}

/** Registrations and benches that outlive the process. */
export interface KernelHistory {
  add(version: KernelVersion): Promise<void>;
  /** Records that a kernel was deleted. Its versions stay. */
  delete(name: string): Promise<void>;
  /** The newest version of each kernel that was not deleted since. */
  newest(): Promise<readonly KernelVersion[]>;
  /** Newest first. */
  versions(name: string): Promise<readonly KernelVersion[]>;
  /** A registration, by when it was registered. */
  version(name: string, at: string): Promise<KernelVersion | undefined>;
  /** Name of the kernel that was last registered with a digest. */
  nameOf(digest: string): Promise<string | undefined>;
  /** Benches in which a kernel of this name was bound, newest first. */
  benches(name: string): Promise<readonly KernelBench[]>;
  /** @param summary its row in the list */
  addBench(record: BenchRecord, summary: BenchSummary): Promise<void>;
  /** Newest first. */
  benchSummaries(): Promise<readonly BenchSummary[]>;
  benchRecord(id: string): Promise<BenchRecord | undefined>;
}
