/** Runs dispatches of a step and reads parts of their buffers before and after each. */
import type { StepDims } from '../../../kernels/define.ts';
import { encodeDispatch } from '../execution/plan.ts';
import type { BoundBuffer, Dispatch } from '../execution/plan-context.ts';
import type { Gpu } from '../gpu/device.ts';

/** A range of a buffer, with its contents once the step has run. */
export class ObservedRange {
  readonly buffer: GPUBuffer;
  readonly offset: number;
  readonly bytes: number;
  #contents: ArrayBuffer | undefined;

  /** @param offset and `bytes` are multiples of 4 */
  constructor(bound: BoundBuffer, offset: number, bytes: number) {
    const start = 'buffer' in bound ? (bound.offset ?? 0) : 0;
    this.buffer = 'buffer' in bound ? bound.buffer : bound;
    this.offset = start + offset;
    this.bytes = bytes;
  }

  set contents(value: ArrayBuffer) {
    this.#contents = value;
  }

  #read(): ArrayBuffer {
    if (!this.#contents) throw new Error('the step has not run');
    return this.#contents;
  }

  get floats(): Float32Array {
    return new Float32Array(this.#read());
  }

  get words(): Uint32Array {
    return new Uint32Array(this.#read());
  }

  get halves(): Uint16Array {
    return new Uint16Array(this.#read());
  }
}

export interface ObservedRun {
  readonly dispatch: Dispatch;
  readonly before: readonly ObservedRange[];
  readonly after: readonly ObservedRange[];
}

/** Bytes that are read back at once. */
const maxReadbackBytes = 32 << 20;

/** @throws Error when the device refuses the step */
export async function runObserved(gpu: Gpu, runs: readonly ObservedRun[], dims: StepDims): Promise<void> {
  let group: ObservedRun[] = [];
  let bytes = 0;
  for (const run of runs) {
    const more = bytesOf([...run.before, ...run.after]);
    if (group.length > 0 && bytes + more > maxReadbackBytes) {
      await runGroup(gpu, group, bytes, dims);
      group = [];
      bytes = 0;
    }
    group.push(run);
    bytes += more;
  }
  await runGroup(gpu, group, bytes, dims);
}

const bytesOf = (ranges: readonly ObservedRange[]): number =>
  ranges.reduce((sum, range) => sum + range.bytes, 0);

async function runGroup(
  { device }: Gpu,
  runs: readonly ObservedRun[],
  bytes: number,
  dims: StepDims,
): Promise<void> {
  const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
  device.pushErrorScope('validation');
  const readback = device.createBuffer({ label: 'verify.readback', size: Math.max(16, bytes), usage });
  const encoder = device.createCommandEncoder();
  let at = 0;
  const copy = (ranges: readonly ObservedRange[]) => {
    for (const range of ranges) {
      encoder.copyBufferToBuffer(range.buffer, range.offset, readback, at, range.bytes);
      at += range.bytes;
    }
  };
  let pass: GPUComputePassEncoder | undefined;
  const endPass = () => {
    pass?.end();
    pass = undefined;
  };
  for (const { dispatch, before, after } of runs) {
    if (before.length > 0) endPass();
    copy(before);
    pass ??= encoder.beginComputePass();
    encodeDispatch(pass, dispatch, dims);
    if (after.length > 0) endPass();
    copy(after);
  }
  endPass();
  device.queue.submit([encoder.finish()]);
  try {
    // A copy that the device rejects would leave zeros.
    const error = await device.popErrorScope();
    if (error) throw new Error(`the step cannot be observed: ${error.message}`);
    await readback.mapAsync(GPUMapMode.READ);
    const contents = readback.getMappedRange();
    let from = 0;
    for (const range of runs.flatMap(({ before, after }) => [...before, ...after])) {
      range.contents = contents.slice(from, from + range.bytes);
      from += range.bytes;
    }
  } finally {
    readback.destroy();
  }
}
