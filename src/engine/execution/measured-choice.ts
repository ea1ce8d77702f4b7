/** Choices of kernels that an op leaves to measurements, apart from those of products. */
import type { Variant } from '../../../kernels/assemble.ts';
import type { Kernel, StepDims } from '../../../kernels/define.ts';
import type { BufferName } from '../graph/graph.ts';
import type { BoundBuffer, Dispatch, PlanContext } from './plan-context.ts';
import { planDispatch, type PlannedDispatch, singleOption } from './plan-dispatch.ts';
import type { AttentionTiling, StepInput } from './step.ts';
import { optionKey } from './tuning.ts';

/** A step in which a choice is measured. */
export interface MeasuredStep {
  /** Part of the key of its times. */
  readonly name: string;
  compose(step: StepInput): void;
}

export interface MeasuredOption {
  /** Name under which its time is stored. */
  readonly name: string;
  /** Tiling of the steps that it is measured in; default: that of the plan. */
  readonly tiling?: AttentionTiling;
  /** The dispatches that are timed together. */
  readonly dispatches: () => Promise<readonly PlannedDispatch[]>;
}

export interface MeasuredChoice {
  /** What is chosen for, such as norms of rows of some length. */
  readonly subject: string;
  /** One option serves all of them. */
  readonly steps: readonly MeasuredStep[];
  /** The default first. */
  readonly options: readonly MeasuredOption[];
  readonly output: MeasuredOutput;
}

/** Where options are compared. */
export interface MeasuredOutput {
  readonly buffer: GPUBuffer;
  /** Words from its start that are compared after a step. */
  words(dims: StepDims): number;
  /** It is read as well, so it is filled as an input. */
  readonly inPlace?: boolean;
  /** Options have the same bits. */
  readonly exact?: boolean;
}

/** The rows of an activation. */
export const activation = (
  { memory }: Pick<PlanContext, 'memory'>,
  name: BufferName,
  inPlace = false,
): MeasuredOutput => ({
  buffer: memory.buffers[name],
  words: ({ tokens }) => tokens * memory.strides[name],
  inPlace,
});

type Params = Readonly<Record<string, number>>;

/** Variants among which measurements choose one. */
interface VariantChoice<P extends Params> {
  readonly subject: string;
  readonly steps: readonly MeasuredStep[];
  /** The default first. */
  readonly options: readonly { readonly kernel: Kernel<Variant, P>; readonly variant: Variant }[];
  readonly output: MeasuredOutput;
}

/** Plans a dispatch of the fastest variant; the arguments are those of `planDispatch`. */
export function planFastest<P extends Params>(
  context: PlanContext,
  id: string,
  { subject, steps, options, output }: VariantChoice<P>,
  params: P,
  buffers: Readonly<Record<string, BoundBuffer>>,
  rows?: Dispatch['rows'],
): Promise<PlannedDispatch> {
  const { collect, ...own } = context;
  if (options.length > 1) {
    collect?.({
      subject,
      steps,
      output,
      options: options.map(({ kernel, variant }) => ({
        name: optionKey({ kernel, variant }),
        dispatches: async () => [
          await planDispatch(own, `tuner.${id}`, singleOption(kernel, variant), params, buffers, rows),
        ],
      })),
    });
  }
  const names = steps.map(({ name }) => name);
  const { kernel, variant } = context.tuning.variant(subject, names, options);
  return planDispatch(context, id, singleOption(kernel, variant), params, buffers, rows);
}

/** The same variants of one kernel as a list of options. */
export const optionsOf = <V extends Variant, P extends Params>(
  kernel: Kernel<V, P>,
  variants: readonly V[],
): { kernel: Kernel<Variant, P>; variant: Variant }[] =>
  variants.map((variant) => ({ kernel: kernel as unknown as Kernel<Variant, P>, variant }));
