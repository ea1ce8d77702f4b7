import type { StepDims } from '../../../kernels/define.ts';
import type { Gpu } from '../gpu/device.ts';
import { encodeDispatch, type Plan } from './plan.ts';
import type { BoundBuffer, LabDispatch } from './plan-context.ts';

/** Inputs and outputs of a lab kernel in one step, by the names of its contract. */
export interface ObservedDispatch {
  readonly lab: LabDispatch;
  readonly before: Readonly<Record<string, ArrayBuffer>>;
  readonly after: Readonly<Record<string, ArrayBuffer>>;
}

/** Bytes to read from the start of each binding before and after the dispatch. */
export interface ReadSizes {
  readonly before: Readonly<Record<string, number>>;
  readonly after: Readonly<Record<string, number>>;
}

interface ReadbackCopy {
  readonly name: string;
  readonly readback: GPUBuffer;
  readonly bytes: number;
}

/**
 * Runs a step and copies what lab kernels read and write. Slow; for checks while nothing else runs.
 * @param sizesFor returns undefined for dispatches that are not observed
 */
export async function observeDispatches(
  gpu: Gpu,
  plan: Plan,
  dims: StepDims,
  sizesFor: (lab: LabDispatch) => ReadSizes | undefined,
): Promise<ObservedDispatch[]> {
  const { device } = gpu;
  const encoder = device.createCommandEncoder();
  const observed: { lab: LabDispatch; before: ReadbackCopy[]; after: ReadbackCopy[] }[] = [];
  const copyOut = (lab: LabDispatch, sizes: Readonly<Record<string, number>>): ReadbackCopy[] =>
    Object.entries(sizes).map(([name, bytes]) => {
      const { buffer, offset } = bufferRangeOf(lab.buffers[name], name);
      const size = Math.max(4, Math.ceil(bytes / 4) * 4);
      const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
      const readback = device.createBuffer({ label: `observe.${name}`, size, usage });
      encoder.copyBufferToBuffer(buffer, offset, readback, 0, size);
      return { name, readback, bytes };
    });
  try {
    for (const dispatch of plan.dispatches) {
      const { lab } = dispatch;
      const sizes = lab && sizesFor(lab);
      const before = lab && sizes ? copyOut(lab, sizes.before) : [];
      const pass = encoder.beginComputePass();
      encodeDispatch(pass, dispatch, dims);
      pass.end();
      if (lab && sizes) observed.push({ lab, before, after: copyOut(lab, sizes.after) });
    }
    // A copy that Dawn rejects would leave zeros, which could pass for correct output.
    device.pushErrorScope('validation');
    device.queue.submit([encoder.finish()]);
    const error = await device.popErrorScope();
    if (error) throw new Error(`the step cannot be observed: ${error.message}`);
    return await Promise.all(
      observed.map(async ({ lab, before, after }) => ({
        lab,
        before: await contentsOf(before),
        after: await contentsOf(after),
      })),
    );
  } finally {
    for (const { before, after } of observed)
      for (const { readback } of [...before, ...after]) readback.destroy();
  }
}

function bufferRangeOf(bound: BoundBuffer | undefined, name: string): { buffer: GPUBuffer; offset: number } {
  if (!bound) throw new Error(`nothing is bound to ${name}`);
  return 'buffer' in bound
    ? { buffer: bound.buffer, offset: bound.offset ?? 0 }
    : { buffer: bound, offset: 0 };
}

async function contentsOf(copies: readonly ReadbackCopy[]): Promise<Record<string, ArrayBuffer>> {
  const contents: Record<string, ArrayBuffer> = {};
  for (const { name, readback, bytes } of copies) {
    await readback.mapAsync(GPUMapMode.READ);
    contents[name] = readback.getMappedRange().slice(0, bytes);
  }
  return contents;
}
