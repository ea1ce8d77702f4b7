import type { StepDims } from '../../kernels/define.ts';
import type { Gpu } from './gpu/device.ts';
import { encodeDispatch, type Plan } from './plan.ts';
import type { Bound, LabDispatch } from './plan-context.ts';

/** Inputs and outputs of a lab kernel in one step, by the names of its contract. */
export interface Observed {
  readonly lab: LabDispatch;
  readonly before: Readonly<Record<string, ArrayBuffer>>;
  readonly after: Readonly<Record<string, ArrayBuffer>>;
}

/** Bytes to read from the start of each binding before and after the dispatch. */
export interface Wanted {
  readonly before: Readonly<Record<string, number>>;
  readonly after: Readonly<Record<string, number>>;
}

interface Copy {
  readonly name: string;
  readonly readback: GPUBuffer;
  readonly bytes: number;
}

/**
 * Runs a step and copies what lab kernels read and write. Slow; for checks while nothing else runs.
 * @param sizesFor returns undefined for dispatches that are not observed
 */
export async function observe(
  gpu: Gpu,
  plan: Plan,
  dims: StepDims,
  wanted: (lab: LabDispatch) => Wanted | undefined,
): Promise<Observed[]> {
  const { device } = gpu;
  const encoder = device.createCommandEncoder();
  const looks: { lab: LabDispatch; before: Copy[]; after: Copy[] }[] = [];
  const copyOut = (lab: LabDispatch, sizes: Readonly<Record<string, number>>): Copy[] =>
    Object.entries(sizes).map(([name, bytes]) => {
      const { buffer, offset } = placeOf(lab.buffers[name], name);
      const size = Math.max(4, Math.ceil(bytes / 4) * 4);
      const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
      const readback = device.createBuffer({ label: `observe.${name}`, size, usage });
      encoder.copyBufferToBuffer(buffer, offset, readback, 0, size);
      return { name, readback, bytes };
    });
  try {
    for (const dispatch of plan.dispatches) {
      const { lab } = dispatch;
      const sizes = lab && wanted(lab);
      const before = lab && sizes ? copyOut(lab, sizes.before) : [];
      const pass = encoder.beginComputePass();
      encodeDispatch(pass, dispatch, dims);
      pass.end();
      if (lab && sizes) looks.push({ lab, before, after: copyOut(lab, sizes.after) });
    }
    // A copy that Dawn rejects would leave zeros, which could pass for correct output.
    device.pushErrorScope('validation');
    device.queue.submit([encoder.finish()]);
    const error = await device.popErrorScope();
    if (error) throw new Error(`the step cannot be observed: ${error.message}`);
    return await Promise.all(
      looks.map(async ({ lab, before, after }) => ({
        lab,
        before: await contentsOf(before),
        after: await contentsOf(after),
      })),
    );
  } finally {
    for (const { before, after } of looks)
      for (const { readback } of [...before, ...after]) readback.destroy();
  }
}

function placeOf(bound: Bound | undefined, name: string): { buffer: GPUBuffer; offset: number } {
  if (!bound) throw new Error(`nothing is bound to ${name}`);
  return 'buffer' in bound
    ? { buffer: bound.buffer, offset: bound.offset ?? 0 }
    : { buffer: bound, offset: 0 };
}

async function contentsOf(copies: readonly Copy[]): Promise<Record<string, ArrayBuffer>> {
  const contents: Record<string, ArrayBuffer> = {};
  for (const { name, readback, bytes } of copies) {
    await readback.mapAsync(GPUMapMode.READ);
    contents[name] = readback.getMappedRange().slice(0, bytes);
  }
  return contents;
}
