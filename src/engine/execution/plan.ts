import { attentionLanes } from '../../../kernels/attention.ts';
import type { StepDims } from '../../../kernels/define.ts';
import { embed } from '../../../kernels/embed.ts';
import { gatedActivation } from '../../../kernels/gated-activation.ts';
import { gatherRows } from '../../../kernels/gather-rows.ts';
import { matmulFlags, type MatmulFamily, withFlags } from '../../../kernels/matmul.ts';
import { chooseNormAdd, normAdd } from '../../../kernels/norm-add.ts';
import { chooseRmsNorm, rmsNorm } from '../../../kernels/rms-norm.ts';
import type { GatherUnit, PlanUnit } from '../graph/bindings.ts';
import { fuse, type FusedOp } from '../graph/fusion.ts';
import type { Gpu } from '../gpu/device.ts';
import { layerShape, type MatmulUnit, type Shape, type Unit } from '../graph/graph.ts';
import { labNormWeight, labVectors, planLab } from './lab-plan.ts';
import { planAttention, planRope } from './plan-attention.ts';
import {
  type PipelineChoice,
  type Dispatch,
  layerOf,
  type PlanContext,
  stackOf,
  strideOf,
  vectorOf,
} from './plan-context.ts';
import { singleOption, planDispatch, loopLimit, dispatchId, type PlannedDispatch } from './plan-dispatch.ts';
import { planGelu, planLayerNorm, planPool, planPositions } from './plan-embedding.ts';
import { expertVectors, planExpertMatmul, planExpertSum, planRoute } from './plan-experts.ts';
import {
  perLayerVectors,
  planPerLayerJoin,
  planPerLayerGate,
  planScale,
  planSoftcap,
} from './plan-per-layer.ts';
import { planAdjust, planSample, planLogprobs } from './plan-sampling.ts';
import { planConv, planDeltaNet, planGatedNorm, planSigmoidGate, stateVectors } from './plan-state.ts';
import { slicedPartsOf, type SlicedPart } from './weight-slices.ts';
import { stackKey, type WeightStack } from '../loading/weights.ts';

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
      return (await planFusedOp(context, fusedOp)).map(
        (dispatch): Dispatch => ({ ...dispatch, nodes, part }),
      );
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
  gpu: Gpu,
  { shape, units }: { shape: Pick<Shape, 'headDim' | 'embedding' | 'perLayer'>; units: readonly PlanUnit[] },
  family: MatmulFamily,
  stacks: ReadonlyMap<string, WeightStack>,
): FusedOp[] {
  const attentionLayers = shape.perLayer?.filter(({ heads }) => heads > 0) ?? [shape];
  const lanes = Math.min(...attentionLayers.map(({ headDim }) => attentionLanes(gpu.caps, headDim)));
  return fuse(units, {
    norms: family.rowsPerPartialSum > 0,
    // Applies to tiles of one token, which embedding steps do not have.
    rotation: lanes > 0 && !shape.embedding,
    // Eight is the number WebGPU guarantees, but some browsers have offered fewer to compatibility devices.
    headNorms: gpu.device.limits.maxStorageBuffersPerShaderStage >= 8,
    isSinglePart: (unit) => !unit.slice && stacks.get(stackKey(unit.weights))?.parts.length === 1,
  });
}

/** The vectors that a plan of these ops binds, each a list of tensors that are stored consecutively. */
export function vectorsOf(fusedOps: readonly FusedOp[]): Map<string, readonly string[]> {
  const lists = fusedOps.flatMap(
    ({ unit, nextNormWeight, sumNormWeight, headNorms }): (readonly string[])[] => {
      if (unit.op === 'rms_norm' || unit.op === 'head_norm') return [[unit.weight]];
      if (unit.op === 'layer_norm') return [[unit.weight, unit.bias]];
      if (unit.op === 'position_embed') return [[unit.tokenType ?? []].flat()];
      if (unit.op === 'norm_add') return [[unit.weight], sumNormWeight === undefined ? [] : [sumNormWeight]];
      if (unit.op === 'lab') return [labVectors(unit), [labNormWeight(unit) ?? []].flat()];
      if (unit.op === 'attention') return [[...(headNorms ?? [])], [unit.sinks ?? []].flat()];
      const others = [...stateVectors(unit), ...expertVectors(unit), ...perLayerVectors(unit)];
      if (others.length > 0) return others;
      const biases = unit.op === 'matmul' ? unit.biases : [];
      return [[...biases, ...(nextNormWeight === undefined ? [] : [nextNormWeight]), ...(headNorms ?? [])]];
    },
  );
  return new Map(lists.filter((names) => names.length > 0).map((names) => [stackKey(names), names]));
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

/** The pipeline that a dispatch runs for a step of these dimensions; undefined when there is nothing to do. */
export function pipelineChoiceOf(dispatch: Dispatch, dims: StepDims): PipelineChoice | undefined {
  const rows = dispatch.rows === 'tokens' ? dims.tokens : dims.samples;
  if (rows === 0) return undefined;
  const onlyPrompts = dims.decodeRows === 0 && dispatch.rows === 'tokens';
  return dispatch.choices.find((one) => rows <= one.upTo && (onlyPrompts || !one.promptOnly));
}

/** Returns false when the dispatch has nothing to do in this step. */
export function encodeDispatch(pass: GPUComputePassEncoder, dispatch: Dispatch, dims: StepDims): boolean {
  const choice = pipelineChoiceOf(dispatch, dims);
  if (!choice) return false;
  const [x, y, z] = choice.grid(dims);
  if (x === 0 || y === 0 || z === 0) return false;
  pass.setPipeline(choice.pipeline);
  pass.setBindGroup(0, dispatch.bindGroup);
  pass.dispatchWorkgroups(x, y, z);
  return true;
}

async function planFusedOp(context: PlanContext, fusedOp: FusedOp): Promise<PlannedDispatch[]> {
  const { unit, promptOnly = false } = fusedOp;
  switch (unit.op) {
    case 'lab':
      return planLab(context, unit);
    case 'gather':
      return [await planGather(context, unit)];
    case 'embed':
      return planEmbed(context, unit, fusedOp);
    case 'matmul':
      return planMatmul(context, unit, fusedOp);
    case 'rms_norm':
    case 'head_norm':
      return [await planNorm(context, unit, promptOnly)];
    case 'norm_add':
      return [await planNormAdd(context, unit, fusedOp)];
    case 'rope_kv_write':
      return [await planRope(context, unit, promptOnly)];
    case 'attention':
      return planAttention(context, unit, fusedOp);
    case 'gated_activation':
      return [await planActivation(context, unit)];
    case 'sample':
      return [
        await planAdjust(context, unit),
        await planSample(context, unit),
        ...(await planLogprobs(context, unit)),
      ];
    case 'sample_adjust':
      return [await planAdjust(context, unit)];
    case 'logprobs':
      return planLogprobs(context, unit);
    case 'position_embed':
      return planPositions(context, unit);
    case 'layer_norm':
      return [await planLayerNorm(context, unit)];
    case 'gelu':
      return [await planGelu(context, unit)];
    case 'pool':
      return [await planPool(context, unit)];
    case 'short_conv':
      return [await planConv(context, unit)];
    case 'delta_net':
      return [await planDeltaNet(context, unit)];
    case 'gated_norm':
      return [await planGatedNorm(context, unit)];
    case 'sigmoid_gate':
      return [await planSigmoidGate(context, unit)];
    case 'route':
      return planRoute(context, unit);
    case 'expert_matmul':
      return planExpertMatmul(context, unit);
    case 'expert_sum':
      return [await planExpertSum(context, unit)];
    case 'per_layer_join':
      return [await planPerLayerJoin(context, unit)];
    case 'per_layer_gate':
      return [await planPerLayerGate(context, unit)];
    case 'scale':
      return [await planScale(context, unit)];
    case 'softcap':
      return [await planSoftcap(context, unit)];
  }
}

function planEmbed(
  context: PlanContext,
  unit: Extract<Unit, { op: 'embed' }>,
  { nextNormWeight }: FusedOp,
): Promise<PlannedDispatch[]> {
  const { memory, graph, family } = context;
  const norm = nextNormWeight !== undefined;
  const optionalBuffers = {
    squares: norm ? memory.squares : memory.dummyWrite,
    norm_weight: norm ? vectorOf(context, nextNormWeight) : memory.dummyRead,
    scaled: norm ? memory.buffers.normed : memory.scratch,
  };
  return Promise.all(
    stackOf(context, [unit.weight]).parts.map((part, index) =>
      planDispatch(
        context,
        dispatchId(unit.id, index),
        singleOption(embed, { FORMAT: part.format, WG: 64, PART: family.rowsPerPartialSum || 4 }),
        {
          rows: part.rows,
          first_row: part.firstRow,
          blocks: part.blocks,
          scale: graph.shape.embeddingScale,
          norm: norm ? 1 : 0,
        },
        {
          quants: part.quants,
          scales: part.scales,
          sampled: memory.sampled,
          y: memory.buffers.hidden,
          ...optionalBuffers,
        },
      ),
    ),
  );
}

function planMatmul(context: PlanContext, unit: MatmulUnit, fusedOp: FusedOp): Promise<PlannedDispatch[]> {
  const { memory, graph, family, tuning } = context;
  const { nextNormWeight, appliesInputNorm = false, gated } = fusedOp;
  const { width, eps } = graph.shape;
  const biased = unit.biases.length > 0;
  const vectors = [...unit.biases, ...(nextNormWeight === undefined ? [] : [nextNormWeight])];
  const stack = stackOf(context, unit.weights);
  const rows = stack.parts.reduce((sum, part) => sum + part.rows, 0);
  const to = gated ? 'activated' : unit.to;
  const flags =
    (biased ? matmulFlags.bias : 0) |
    (unit.add ? matmulFlags.add : 0) |
    (unit.sampled ? matmulFlags.sampled : 0) |
    (appliesInputNorm ? matmulFlags.normIn : 0) |
    (nextNormWeight === undefined ? 0 : matmulFlags.normOut) |
    (gated ? matmulFlags.gated : 0) |
    (gated === 'gelu_tanh' ? matmulFlags.geluTanh : 0);
  const buffers = {
    vectors: vectors.length > 0 ? vectorOf(context, stackKey(vectors)) : memory.dummyRead,
    x: memory.buffers[unit.from],
    y: memory.buffers[to],
    squares: appliesInputNorm || nextNormWeight !== undefined ? memory.squares : memory.dummyWrite,
    scaled: nextNormWeight === undefined ? memory.scratch : memory.buffers.normed,
  };
  const dispatch = (part: SlicedPart, index: number) =>
    planDispatch(
      context,
      dispatchId(unit.id, index),
      tuning.choose(family, part, unit.unbounded).map((option) => withFlags(option, flags)),
      {
        rows: part.rows,
        blocks: part.blocks,
        out_stride: strideOf(context, to, layerOf(unit)),
        out_offset: part.firstRow,
        flags,
        bias_offset: part.firstRow,
        norm_weight_offset: (biased ? rows : 0) + part.firstRow,
        half: part.rows / 2,
        parts: Math.ceil(width / (family.rowsPerPartialSum || 4)),
        width,
        eps,
        loop_limit: loopLimit,
        scale: unit.scale,
      },
      { quants: part.quants, scales: part.scales, ...buffers },
      unit.sampled ? 'samples' : 'tokens',
    );
  return Promise.all(slicedPartsOf(context, stack, unit.slice).map(dispatch));
}

function planNorm(
  context: PlanContext,
  unit: Extract<Unit, { op: 'rms_norm' | 'head_norm' }>,
  promptOnly: boolean,
): Promise<PlannedDispatch> {
  const { memory, graph, gpu } = context;
  const { eps, width } = graph.shape;
  const weight = vectorOf(context, unit.weight);
  if (unit.op === 'head_norm') {
    const { headDim } = layerShape(graph.shape, unit.layer);
    const stride = strideOf(context, 'qkv', unit.layer);
    const offset = unit.firstHead * headDim;
    return planDispatch(
      context,
      unit.id,
      singleOption(rmsNorm, chooseRmsNorm(gpu.caps, { inPlace: true, prompt: promptOnly })),
      {
        columns: headDim,
        heads: unit.heads,
        in_stride: stride,
        in_offset: offset,
        out_stride: stride,
        out_offset: offset,
        eps,
      },
      { weight, y: memory.buffers.qkv },
    );
  }
  return planDispatch(
    context,
    unit.id,
    singleOption(rmsNorm, chooseRmsNorm(gpu.caps, { sampled: unit.sampled })),
    {
      columns: width,
      heads: 1,
      in_stride: strideOf(context, unit.from),
      in_offset: 0,
      out_stride: strideOf(context, unit.to),
      out_offset: 0,
      eps,
    },
    { weight, x: memory.buffers[unit.from], y: memory.buffers[unit.to] },
    unit.sampled ? 'samples' : 'tokens',
  );
}

function planNormAdd(
  context: PlanContext,
  unit: Extract<Unit, { op: 'norm_add' }>,
  { sumNormWeight, scale = 1 }: FusedOp,
): Promise<PlannedDispatch> {
  const { memory, graph, gpu } = context;
  const { eps, width } = graph.shape;
  const { projected, hidden, normed } = memory.buffers;
  const optionalBuffers =
    sumNormWeight === undefined ? {} : { next_weight: vectorOf(context, sumNormWeight), out: normed };
  return planDispatch(
    context,
    unit.id,
    singleOption(normAdd, chooseNormAdd(gpu.caps, { writesNextNorm: sumNormWeight !== undefined })),
    { columns: width, eps, scale },
    { weight: vectorOf(context, unit.weight), x: projected, y: hidden, ...optionalBuffers },
  );
}

function planActivation(
  context: PlanContext,
  unit: Extract<Unit, { op: 'gated_activation' }>,
): Promise<PlannedDispatch> {
  const { memory, graph } = context;
  return planDispatch(
    context,
    unit.id,
    singleOption(gatedActivation, { WG: 64, GELU_TANH: unit.activation === 'gelu_tanh' }),
    {
      columns: layerShape(graph.shape, layerOf(unit)).feedForward,
      out_stride: strideOf(context, 'activated', layerOf(unit)),
    },
    { gate_up: memory.buffers.gate_up, y: memory.buffers.activated },
  );
}

function planGather(context: PlanContext, unit: GatherUnit): Promise<PlannedDispatch> {
  const { memory, graph } = context;
  return planDispatch(
    context,
    unit.id,
    singleOption(gatherRows, { WG: 64 }),
    { columns: graph.shape.width },
    { x: memory.buffers.hidden, y: memory.buffers[unit.to] },
    'samples',
  );
}
