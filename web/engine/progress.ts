/** Progress reports of loading, with messages for users. */
import { formatBytes, type LoadProgress as EngineProgress } from '../../src/engine/index.ts';
import type { LoadProgress } from './types.ts';

type ReportProgress = (progress: LoadProgress) => void;

/** Minimum time between two reports of the same phase; the first and the last are always reported. */
const minIntervalMs = 60;

export function throttleProgress(report: ReportProgress): ReportProgress {
  let phase: string | undefined;
  let lastReportAt = Number.NEGATIVE_INFINITY;
  return (progress) => {
    const now = performance.now();
    const isLast = progress.done !== undefined && progress.done === progress.total;
    if (progress.phase === phase && !isLast && now - lastReportAt < minIntervalMs) return;
    phase = progress.phase;
    lastReportAt = now;
    report(progress);
  };
}

/** The last path segment of a URL. */
export const fileName = (url: string): string => new URL(url).pathname.split('/').at(-1) ?? url;

/** Reports download progress; a model of several files is reported file by file. */
export const downloadReporter =
  (report: ReportProgress) =>
  (file: string, done: number, total: number | undefined): void => {
    const totalText = total === undefined ? '' : ` of ${formatBytes(total)}`;
    report({
      phase: 'download',
      message: `Downloading ${fileName(file)}: ${formatBytes(done)}${totalText}`,
      done,
      ...(total === undefined ? {} : { total }),
    });
  };

export function toLoadProgress({ stage, done, total }: EngineProgress): LoadProgress {
  switch (stage) {
    case 'open':
      return { phase: 'download', message: 'Opening the model' };
    case 'weights':
      return {
        phase: 'weights',
        message: `Loading weights: ${formatBytes(done)} of ${formatBytes(total)}`,
        done,
        total,
      };
    case 'measure':
      return {
        phase: 'compile',
        message: `Tuning kernels for this GPU (first time only): ${done} of ${total}`,
      };
    case 'pipelines':
      return { phase: 'compile', message: `Compiling kernels: ${done} of ${total}` };
    case 'warm-up':
      return { phase: 'warm-up', message: `Warming up: ${done} of ${total}` };
    case 'verify':
      return { phase: 'warm-up', message: 'Comparing kernels with the CPU (first time only)' };
  }
}
