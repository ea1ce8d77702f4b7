/** Times kernels that compute the same, and finds those that do not. */
import { PassTimer } from '../gpu/pass-timer.ts';
import type { Gpu } from '../gpu/device.ts';
import type { Tuning } from './tuning.ts';

type Encode = (pass: GPUComputePassEncoder) => void;

/** What measurements need of a device. */
export interface KernelBench {
  /** Runs a pass; resolves with its time in ms. */
  time(encode: Encode): Promise<number>;
  /** Reads the first words of a buffer. */
  read(buffer: GPUBuffer, words: number): Promise<Float32Array>;
  destroy(): void;
}

export interface Candidate {
  /** Name under which its time is recorded. */
  readonly name: string;
  /** Compiles and binds it; resolves with a function that adds a run of it to a pass. */
  prepare(): Promise<Encode>;
  /** Writes the part of the step that differs between candidates; before every pass. */
  write?(): void;
}

/** One measurement: of candidates that compute the same output, the default first. */
export interface Measurement {
  /** Key of the recorded times. */
  readonly key: string;
  readonly candidates: readonly Candidate[];
  /** Writes the inputs before the first candidate runs, and before each one NaN to an output that is only written. */
  readonly fill: (isFirst: boolean) => void;
  readonly output: { readonly buffer: GPUBuffer; readonly words: number };
  /** Rounds of which the best counts; default: five. */
  readonly rounds?: number;
  /** Whether outputs agree. */
  readonly isNear: (actual: Float32Array, expected: Float32Array) => boolean;
}

const defaultRounds = 5;
/** Minimum duration of a round in ms, reached by repeating the candidate. */
const minRoundMs = 1;
const maxRepeats = 64;
/** Recorded for a kernel that does not compile on this adapter or gives wrong results. */
const invalidMs = 1e9;
/** Below the resolution of any clock. */
const minMs = 1e-6;

/**
 * Times the candidates in alternation, so that other load on the machine affects them alike, and records each one's best round.
 * @returns the number of timed candidates
 */
export async function measureCandidates(
  { key, candidates, fill, output, isNear, rounds = defaultRounds }: Measurement,
  { tuning, bench, isOverBudget }: { tuning: Tuning; bench: KernelBench; isOverBudget: () => boolean },
): Promise<number> {
  const runs: { candidate: Candidate; encode: Encode; best: number }[] = [];
  let expected: Float32Array | undefined;
  let isFirst = true;
  for (const candidate of candidates) {
    // A kernel that the driver rejects, or that gives wrong results, must neither abort start-up nor be selected.
    try {
      const encode = await candidate.prepare();
      fill(isFirst);
      isFirst = false;
      candidate.write?.();
      await bench.time(encode); // may compile
      const actual = await bench.read(output.buffer, output.words);
      expected ??= actual;
      if (!isNear(actual, expected)) throw new Error('wrong results');
      runs.push({ candidate, encode, best: Number.POSITIVE_INFINITY });
    } catch {
      tuning.recordTime(key, candidate.name, invalidMs);
    }
  }
  const [first] = runs;
  if (!first) return 0;
  first.candidate.write?.();
  const singleRunMs = await bench.time(first.encode);
  const repeats = Math.max(1, Math.min(maxRepeats, Math.ceil(minRoundMs / Math.max(singleRunMs, minMs))));
  for (let round = 0; round < rounds && !(round > 0 && isOverBudget()); round++) {
    for (const run of runs) {
      run.candidate.write?.();
      const ms = await bench.time((pass) => {
        for (let n = 0; n < repeats; n++) run.encode(pass);
      });
      run.best = Math.min(run.best, ms / repeats);
    }
  }
  for (const { candidate, best } of runs) tuning.recordTime(key, candidate.name, Math.max(best, minMs));
  return runs.length;
}

export const isPending = (tuning: Tuning, { key, candidates }: Pick<Measurement, 'key' | 'candidates'>) =>
  candidates.some(({ name }) => !tuning.hasTime(key, name));

/** The bench of a real device. */
export function deviceBench(gpu: Gpu): KernelBench {
  const timer = new PassTimer(gpu);
  return {
    time: (encode) => timer.time(encode),
    read: (buffer, words) => readBack(gpu.device, buffer, words),
    destroy: () => timer.destroy(),
  };
}

async function readBack(device: GPUDevice, buffer: GPUBuffer, words: number): Promise<Float32Array> {
  const size = words * 4;
  const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
  const readback = device.createBuffer({ label: 'tuner.readback', size, usage });
  const encoder = device.createCommandEncoder();
  encoder.copyBufferToBuffer(buffer, 0, readback, 0, size);
  device.queue.submit([encoder.finish()]);
  await readback.mapAsync(GPUMapMode.READ);
  const values = new Float32Array(readback.getMappedRange().slice(0));
  readback.destroy();
  return values;
}

/** Largest mean squared error between two kernels, relative to the signal power; 8-bit rounding causes 3e-5. */
const maxRelativeError = 1e-3;

/** Compares words of two outputs, those that `isCompared` is true of; a NaN that only one has is never near. */
export function areNear(
  actual: Float32Array,
  expected: Float32Array,
  isCompared: (index: number) => boolean = () => true,
): boolean {
  let error = 0;
  let power = 0;
  for (let i = 0; i < expected.length; i++) {
    const [got, wanted] = [actual[i] as number, expected[i] as number];
    if (!isCompared(i) || (Number.isNaN(got) && Number.isNaN(wanted))) continue;
    error += (got - wanted) ** 2;
    power += wanted ** 2;
  }
  return error <= maxRelativeError * power;
}

export const areEqual = (actual: Float32Array, expected: Float32Array): boolean => {
  const [got, wanted] = [actual, expected].map(
    ({ buffer, byteOffset, length }) => new Uint32Array(buffer, byteOffset, length),
  ) as [Uint32Array, Uint32Array];
  return wanted.every((word, index) => got[index] === word);
};

/** Values of both signs that differ between rows and columns. */
export const sawtooth = (count: number): Float32Array<ArrayBuffer> =>
  Float32Array.from({ length: count }, (_, i) => ((i * 37) % 101) / 50 - 1);
