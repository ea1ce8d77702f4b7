/** Plans one dispatch: compiles the variants of a kernel and binds their buffers. */
import { type Variant, variantKey } from '../../../kernels/assemble.ts';
import { type Kernel, packParams, type RowRange } from '../../../kernels/define.ts';
import type { BoundBuffer, Dispatch, PlanContext } from './plan-context.ts';

export type PlannedDispatch = Omit<Dispatch, 'nodes' | 'part'>;

/** A kernel and variant for a range of row counts. */
interface DispatchOption<V extends Variant, P extends Params> {
  readonly kernel: Kernel<V, P>;
  readonly variant: V;
  readonly upTo: number;
  /** The rows of a step that it computes; by default, those of the kernel. */
  readonly rows?: RowRange;
}

type Params = Readonly<Record<string, number>>;

/**
 * @param options at least one; their kernels must have the same bindings and parameters
 * @param buffers by the names of the kernel's bindings; `params`, `step`, `samples` and `token` are added
 */
export async function planDispatch<V extends Variant, P extends Params>(
  context: PlanContext,
  id: string,
  options: readonly DispatchOption<V, P>[],
  params: P,
  buffers: Readonly<Record<string, BoundBuffer>>,
  rows: Dispatch['rows'] = 'tokens',
): Promise<PlannedDispatch> {
  const { memory, pipelines, pool } = context;
  if (context.collect) {
    const bindGroup = undefined as unknown as GPUBindGroup;
    return { id, op: options[0]?.kernel.op ?? '', rows, bindGroup, choices: [] };
  }
  const compiled = await Promise.all(options.map(({ kernel, variant }) => pipelines.get(kernel, variant)));
  const first = options[0];
  const layout = compiled[0]?.layout;
  if (!first || !layout) throw new Error(`${id}: no variant`);
  const uniform = pool.uniform(`${id}.params`, packParams(first.kernel, params));
  const allBuffers: Readonly<Record<string, BoundBuffer>> = {
    ...buffers,
    params: uniform,
    step: { buffer: memory.step, offset: 0, size: 16 },
    samples: { buffer: memory.step, offset: memory.layout.samples, size: memory.samplesBytes },
    token: { buffer: memory.step, offset: memory.layout.tokens },
  };
  const entries = first.kernel.bindings(first.variant).flatMap((binding, index) => {
    if (!binding) return [];
    const bound = allBuffers[binding[0]];
    if (!bound) throw new Error(`${id}: nothing bound to ${binding[0]}`);
    const resource = 'buffer' in bound ? bound : { buffer: bound };
    return [{ binding: index, resource }];
  });
  // The layouts of all options are equal, so one bind group serves them all.
  const bindGroup = context.gpu.device.createBindGroup({ label: id, layout, entries });
  return {
    id,
    op: first.kernel.op,
    bindGroup,
    rows,
    bound: { params, buffers: allBuffers },
    choices: options.map(({ kernel, variant, upTo, rows: range = kernel.rows }, index) => ({
      upTo,
      rows: range,
      kernel: `builtin:${variantKey(kernel.source, variant)}`,
      builtin: { source: kernel.source, variant },
      pipeline: (compiled[index] as { pipeline: GPUComputePipeline }).pipeline,
      grid: (dims) => kernel.grid(variant, params, dims),
    })),
  };
}

/**
 * Loop bound passed as a uniform so that the compiler does not unroll the loop; larger than any actual loop count.
 */
export const loopLimit = 1024;

/** One variant for any number of rows. */
export const singleOption = <V extends Variant, P extends Params>(
  kernel: Kernel<V, P>,
  variant: V,
): DispatchOption<V, P>[] => [{ kernel, variant, upTo: Number.POSITIVE_INFINITY }];

/** Id of the dispatch at an index, for a unit that needs several. */
export const dispatchId = (id: string, index: number) => (index === 0 ? id : `${id}#${index + 1}`);
