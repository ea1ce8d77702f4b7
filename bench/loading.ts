/**
 * Compares model loading with raw disk reads: `node bench/loading.ts [--model NAME] [--rounds N]`. `dd` and an engine
 * alternate, each from an empty page cache (needs root on Linux); both are in one run, because disk speed varies.
 */
import { execFile } from 'node:child_process';
import { stat, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';
import { formatBytes } from '../src/engine/format-bytes.ts';
import { findModel } from './models.ts';
import { median } from './statistics.ts';

const run = promisify(execFile);

/** Measurements of one load in a separate process. */
interface LoadMeasurement {
  /** From the first to the last chunk of weights uploaded to the device. */
  readonly weightsMs: number;
  readonly weightBytes: number;
  /** Peak resident memory of the process, and the part that is device buffers. */
  readonly peakBytes: number;
  readonly deviceBytes: number;
}

export interface LoadingFigures {
  readonly model: string;
  readonly fileBytes: number;
  /** GB/s. */
  readonly disk: number;
  readonly load: number;
  /** Median over rounds of load speed / disk speed. */
  readonly ratio: number;
  /** Peak resident memory minus device buffers, which are in main memory on a software adapter. */
  readonly beyondDeviceBytes: number;
  readonly rounds: number;
}

export async function measureLoading(path: string, model: string, rounds: number): Promise<LoadingFigures> {
  const fileBytes = (await stat(path)).size;
  await measureLoad(path); // compiles and measures the kernels
  const disks: number[] = [];
  const loads: LoadMeasurement[] = [];
  for (let round = 0; round < rounds; round++) {
    await dropPageCache();
    const start = performance.now();
    await run('dd', [`if=${path}`, 'of=/dev/null', 'bs=8M', 'status=none']);
    disks.push(fileBytes / (performance.now() - start) / 1e6);
    await dropPageCache();
    loads.push(await measureLoad(path));
  }
  const speeds = loads.map(({ weightBytes, weightsMs }) => weightBytes / weightsMs / 1e6);
  return {
    model,
    fileBytes,
    disk: median(disks),
    load: median(speeds),
    ratio: median(speeds.map((speed, round) => speed / (disks[round] as number))),
    beyondDeviceBytes: Math.max(...loads.map(({ peakBytes, deviceBytes }) => peakBytes - deviceBytes)),
    rounds,
  };
}

async function dropPageCache(): Promise<void> {
  await run('sync');
  await writeFile('/proc/sys/vm/drop_caches', '3').catch((error: unknown) => {
    throw new Error(`the page cache cannot be emptied, so this would measure memory: ${String(error)}`);
  });
}

async function measureLoad(path: string): Promise<LoadMeasurement> {
  const child = fileURLToPath(new URL('loading-child.ts', import.meta.url));
  const { stdout } = await run(process.execPath, [child, path]);
  return JSON.parse(stdout.trim().split('\n').at(-1) as string) as LoadMeasurement;
}

export const loadingText = (figures: LoadingFigures): string =>
  `${figures.model} (${formatBytes(figures.fileBytes)}), ${figures.rounds} rounds: ` +
  `dd ${figures.disk.toFixed(2)} GB/s, load ${figures.load.toFixed(2)} GB/s, ` +
  `${Math.round(figures.ratio * 100)} %; resident beyond the device's buffers ${formatBytes(figures.beyondDeviceBytes)}`;

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({
    options: {
      model: { type: 'string', default: 'llama3.2-3b-q4_0' },
      rounds: { type: 'string', default: '5' },
    },
  });
  const { name, path } = await findModel(values.model);
  console.log(loadingText(await measureLoading(path, name, Number(values.rounds))));
}
