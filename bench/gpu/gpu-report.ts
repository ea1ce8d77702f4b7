import type { Machine } from '../machine.ts';
import type { PeerFigure } from '../peers/compare.ts';
import type { BenchReport } from '../report.ts';
import type { StageResult } from './stage.ts';
import type { TestResult } from './run-collected.ts';

/** The report that bench/gpu/run.ts writes. */
export interface GpuReport {
  readonly schema: 'lathe-gpu/1';
  readonly date: string;
  readonly quick: boolean;
  /** Commit of the bundle. */
  readonly commit?: string;
  readonly machine: Machine;
  /** Output of the driver's query tool, if there is one. */
  readonly driver: string;
  readonly stages: StageResult[];
  /** Adapter info, features, limits and subgroup matrices (bench/gpu/facts.ts). */
  facts?: unknown;
  readonly correctness: FileResult[];
  /** Merged report of all models, for charts. */
  bench?: BenchReport;
  readonly peers: PeerFigure[];
}

/** The tests of one file. */
export interface FileResult {
  readonly file: string;
  readonly passed: number;
  readonly failures: readonly TestResult[];
  /** Number of skipped tests by reason. */
  readonly skipped: Readonly<Record<string, number>>;
  /** The test that was running when the file was terminated. */
  readonly unfinished?: string;
}

/** Counts the results of one file as bench/gpu/run-tests.ts prints them. */
export class FileTally {
  readonly #file: string;
  #passed = 0;
  #running: string | undefined;
  readonly #failures: TestResult[] = [];
  readonly #skipped: Record<string, number> = {};

  constructor(file: string) {
    this.#file = file;
  }

  /** Takes one line of stdout; lines that are not test results are ignored. */
  addLine(line: string): void {
    if (!line.startsWith('{')) return;
    const message = JSON.parse(line) as { start?: string } & Partial<TestResult>;
    if (message.start !== undefined) this.#running = message.start;
    if (message.outcome === undefined) return;
    this.#running = undefined;
    if (message.outcome === 'passed') this.#passed += 1;
    if (message.outcome === 'failed') this.#failures.push(message as TestResult);
    if (message.outcome === 'skipped') {
      const reason = message.note ?? '';
      this.#skipped[reason] = (this.#skipped[reason] ?? 0) + 1;
    }
  }

  result(): FileResult {
    return {
      file: this.#file,
      passed: this.#passed,
      failures: this.#failures,
      skipped: this.#skipped,
      ...(this.#running === undefined ? {} : { unfinished: this.#running }),
    };
  }
}

/** Merges reports of single models into one. */
export function mergeBenchReports(reports: readonly BenchReport[]): BenchReport {
  const [first] = reports;
  if (!first) throw new Error('no report to merge');
  const withHost = reports.find((report) => report.overhead !== undefined);
  return {
    ...first,
    ...(withHost?.overhead ? { overhead: withHost.overhead } : {}),
    ...(withHost?.startUp ? { startUp: withHost.startUp } : {}),
    models: reports.flatMap((report) => report.models),
    figures: reports.flatMap((report) => report.figures),
  };
}
