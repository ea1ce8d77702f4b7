import { rotatesInAttention } from '../../../kernels/attention-choices.ts';
import { decodeAttention } from '../../../kernels/attention.ts';
import { type RowRange, rowsIn, type StepDims } from '../../../kernels/define.ts';
import type { MatmulFamily } from '../../../kernels/matmul.ts';
import type { PlanUnit } from '../graph/bindings.ts';
import { fuse, type FusedOp } from '../graph/fusion.ts';
import type { Shape } from '../graph/graph.ts';
import { planUnit, vectorsOfUnit } from '../ops/index.ts';
import { stackKey } from '../graph/stack-key.ts';
import type { WeightStack } from '../loading/weights.ts';
import { type Dispatch, kernelCaps, type PipelineChoice, type PlanContext } from './plan-context.ts';

export interface Plan {
  readonly dispatches: readonly Dispatch[];
  /** Some product may round activations to 8 bits. */
  readonly int8: boolean;
}

/** Converts the graph to dispatches: chooses a kernel variant for each unit, compiles it, and binds its buffers. */
export async function makePlan(context: PlanContext): Promise<Plan> {
  const lists = await Promise.all(
    context.fusedOps.map(async (fusedOp) => {
      const all = fusedOp.nodes ?? fusedOp.unit.nodes;
      const nodes = all.map(({ id }) => id);
      const part = all.some(({ op }) => op === 'sample') ? 'sampling' : 'forward';
      return (await planUnit(context, fusedOp)).map((dispatch): Dispatch => ({ ...dispatch, nodes, part }));
    }),
  );
  const { weights, fusedOps, tuning, family } = context;
  const parts = fusedOps.flatMap(({ unit }) =>
    unit.op === 'matmul' ? (weights.stacks.get(stackKey(unit.weights))?.parts ?? []) : [],
  );
  const int8 = parts.some((part) => tuning.choose(family, part).some((one) => one.int8));
  return { dispatches: lists.flat(), int8 };
}

/** The units of a graph in execution order, fused as far as this adapter's kernels support it. */
export function fuseUnits(
  { gpu, tuning }: Pick<PlanContext, 'gpu' | 'tuning'>,
  { shape, units }: { shape: Pick<Shape, 'headDim' | 'embedding' | 'perLayer'>; units: readonly PlanUnit[] },
  family: MatmulFamily,
  stacks: ReadonlyMap<string, WeightStack>,
): FusedOp[] {
  const attentionLayers = shape.perLayer?.filter(({ heads }) => heads > 0) ?? [shape];
  const caps = kernelCaps({ gpu, tuning }, decodeAttention.source);
  return fuse(units, {
    norms: family.rowsPerPartialSum > 0,
    // Applies to tiles of one token, which embedding steps do not have.
    rotation: !shape.embedding && attentionLayers.every(({ headDim }) => rotatesInAttention(caps, headDim)),
    // Eight is the number WebGPU guarantees, but some browsers have offered fewer to compatibility devices.
    headNorms: gpu.device.limits.maxStorageBuffersPerShaderStage >= 8,
    isSinglePart: (unit) => !unit.slice && stacks.get(stackKey(unit.weights))?.parts.length === 1,
  });
}

/** The vectors that a plan of these ops binds, each a list of tensors that are stored consecutively. */
export function vectorsOf(fusedOps: readonly FusedOp[]): Map<string, readonly string[]> {
  const lists = fusedOps.flatMap(vectorsOfUnit).filter((names) => names.length > 0);
  return new Map(lists.map((names) => [stackKey(names), names]));
}

/**
 * Encodes a step into one pass.
 * @param part `forward` up to the logits, `sampling` after them; both when absent
 */
export function encodePlan(
  pass: GPUComputePassEncoder,
  plan: Plan,
  dims: StepDims,
  part?: Dispatch['part'],
): void {
  for (const dispatch of plan.dispatches) {
    if (part === undefined || dispatch.part === part) encodeDispatch(pass, dispatch, dims);
  }
}

const rowRanges = [undefined, 'decode', 'prompt'] as const;

/** The pipeline that a dispatch runs for a range of a step's rows; undefined when there is nothing to do. */
function choiceForRows(
  dispatch: Dispatch,
  range: RowRange | undefined,
  dims: StepDims,
): PipelineChoice | undefined {
  const isSampled = dispatch.rows === 'samples';
  // Samples of prompts run with the others, so their logits do not depend on the others either.
  const rows = isSampled ? (range === 'prompt' ? 0 : dims.samples) : rowsIn(range, dims);
  return rows === 0
    ? undefined
    : dispatch.choices.find((choice) => choice.rows === range && rows <= choice.upTo);
}

/**
 * The pipelines that a dispatch runs for a step of these dimensions, one for each range of rows. A grid that is empty
 * is skipped.
 */
export const pipelineChoicesOf = (dispatch: Dispatch, dims: StepDims): PipelineChoice[] =>
  rowRanges.flatMap((range) => choiceForRows(dispatch, range, dims) ?? []);

/** Returns false when the dispatch has nothing to do in this step. */
export function encodeDispatch(pass: GPUComputePassEncoder, dispatch: Dispatch, dims: StepDims): boolean {
  let isEncoded = false;
  for (const range of rowRanges) {
    const choice = choiceForRows(dispatch, range, dims);
    if (!choice) continue;
    const [x, y, z] = choice.grid(dims);
    if (x === 0 || y === 0 || z === 0) continue;
    pass.setPipeline(choice.pipeline);
    pass.setBindGroup(0, dispatch.bindGroup);
    pass.dispatchWorkgroups(x, y, z);
    isEncoded = true;
  }
  return isEncoded;
}
