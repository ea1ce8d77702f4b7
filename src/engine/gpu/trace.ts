import type { StepDims } from '../../../kernels/define.ts';
import { pipelineChoicesOf, encodeDispatch, type Plan } from '../execution/plan.ts';
import type { Gpu } from './device.ts';

export interface DispatchTime {
  id: string;
  op: string;
  /** `builtin:<source>?<variant>`, or the name of a lab kernel. */
  kernel: string;
  /** Ids of graph nodes. */
  nodes: readonly string[];
  ms: number;
}

/** Runs the plan with one timestamped pass for each dispatch. For benchmarks; slower than a normal step. */
export async function traceDispatches(gpu: Gpu, plan: Plan, dims: StepDims): Promise<DispatchTime[]> {
  if (!gpu.timestamps) throw new Error('this adapter has no timestamp queries');
  const { device } = gpu;
  const count = plan.dispatches.length * 2;
  const querySet = device.createQuerySet({ label: 'trace', type: 'timestamp', count });
  const size = count * 8;
  const resolved = device.createBuffer({
    label: 'trace.resolved',
    size,
    usage: GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC,
  });
  const readback = device.createBuffer({
    label: 'trace.readback',
    size,
    usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST,
  });
  try {
    const encoder = device.createCommandEncoder();
    const hasRun = plan.dispatches.map((dispatch, index) => {
      const timestampWrites = {
        querySet,
        beginningOfPassWriteIndex: index * 2,
        endOfPassWriteIndex: index * 2 + 1,
      };
      const pass = encoder.beginComputePass({ timestampWrites });
      const did = encodeDispatch(pass, dispatch, dims);
      pass.end();
      return did;
    });
    encoder.resolveQuerySet(querySet, 0, count, resolved, 0);
    encoder.copyBufferToBuffer(resolved, 0, readback, 0, size);
    device.queue.submit([encoder.finish()]);
    await readback.mapAsync(GPUMapMode.READ);
    const times = new BigUint64Array(readback.getMappedRange().slice(0));
    readback.unmap();
    return plan.dispatches.flatMap((dispatch, index) => {
      const begin = times[index * 2] ?? 0n;
      const end = times[index * 2 + 1] ?? 0n;
      const { id, op, nodes } = dispatch;
      const kernel = pipelineChoicesOf(dispatch, dims)
        .map((choice) => choice.kernel)
        .join(' + ');
      return hasRun[index] ? [{ id, op, kernel, nodes, ms: Number(end - begin) / 1e6 }] : [];
    });
  } finally {
    querySet.destroy();
    resolved.destroy();
    readback.destroy();
  }
}
