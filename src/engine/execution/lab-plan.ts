/** Binds lab kernels to the tensors of the live graph according to their contracts. */
import {
  activationCodes,
  type Contract,
  type ContractBinding,
  packUniform,
} from '../../../kernels/contracts.ts';
import { averageBlockBytes, weightFormat } from '../../../kernels/formats.ts';
import { pageTokens } from '../../../kernels/rope-kv-write.ts';
import type { Dims, LabUnit, BindingSite } from '../graph/bindings.ts';
import { layerShape } from '../graph/graph.ts';
import { pageBuffersOf } from '../memory/memory.ts';
import {
  type BoundBuffer,
  type Dispatch,
  layerOf,
  type PlanContext,
  rotationOf,
  stackOf,
  strideOf,
  vectorOf,
  windowOf,
} from './plan-context.ts';
import type { PlannedDispatch } from './plan-dispatch.ts';
import { slicedPartsOf, bindRange } from './weight-slices.ts';
import { stackKey } from '../graph/stack-key.ts';

/** The inputs of one dispatch, by the names of its contract. */
interface DispatchInputs {
  readonly buffers: Readonly<Record<string, BoundBuffer>>;
  readonly params: Readonly<Record<string, number>>;
  readonly dims: Readonly<Dims>;
  readonly rows: Dispatch['rows'];
  readonly format?: string;
}

/** Names of the vectors that a lab kernel reads, which are stored consecutively. */
export function labVectors({ site }: LabUnit): readonly string[] {
  switch (site.kind) {
    case 'product':
      return site.unit.biases;
    case 'norm':
    case 'norm_add':
      return [site.weight];
    case 'head_norm':
      return [site.unit.weight];
    default:
      return [];
  }
}

/** Weight of the norm that a fused product begins with; a separate vector. */
export const labNormWeight = ({ site }: LabUnit): string | undefined =>
  site.kind === 'product' ? site.normWeight : undefined;

export async function planLab(context: PlanContext, unit: LabUnit): Promise<PlannedDispatch[]> {
  const inputs = dispatchInputsOf(context, unit);
  return Promise.all(
    inputs.map((one, index) =>
      planLabDispatch(context, unit, one, index === 0 ? unit.id : `${unit.id}#${index + 1}`),
    ),
  );
}

async function planLabDispatch(
  context: PlanContext,
  unit: LabUnit,
  inputs: DispatchInputs,
  id: string,
): Promise<PlannedDispatch> {
  const { kernel } = unit;
  const { memory, pool } = context;
  const { pipeline, layout } = await context.pipelines.getLab(kernel);
  // Offset 0 holds the step header; offset 256 holds the same header with the sampled rows in place of the tokens.
  const header = inputs.rows === 'samples' ? memory.layout.sampledHeader : 0;
  const buffers: Readonly<Record<string, BoundBuffer>> = {
    ...inputs.buffers,
    params: pool.uniform(`${id}.params`, packUniform(bindingOf(kernel.contract, 'params'), inputs.params)),
    step: { buffer: memory.step, offset: header, size: 16 },
  };
  const entries = kernel.contract.bindings.map(({ name }, binding) => {
    const bound = buffers[name];
    if (!bound) throw new Error(`${id}: nothing bound to ${name}`);
    return { binding, resource: 'buffer' in bound ? bound : { buffer: bound } };
  });
  // One object is reused for all steps, so decoding allocates nothing.
  const dims: Dims = { ...inputs.dims, tokens: 0, context: 0 };
  return {
    id,
    op: kernel.contract.op,
    rows: inputs.rows,
    bindGroup: context.gpu.device.createBindGroup({ label: id, layout, entries }),
    choices: [
      {
        upTo: Number.POSITIVE_INFINITY,
        promptOnly: false,
        kernel: kernel.name,
        pipeline,
        grid(step) {
          dims['tokens'] = inputs.rows === 'samples' ? step.samples : step.tokens;
          return kernel.grid(dims);
        },
      },
    ],
    lab: {
      kernel,
      target: unit.id,
      buffers,
      params: inputs.params,
      dims: inputs.dims,
      ...(inputs.format === undefined ? {} : { format: inputs.format }),
    },
  };
}

function bindingOf(contract: Contract, name: string): ContractBinding {
  const binding = contract.bindings.find((one) => one.name === name);
  if (!binding) throw new Error(`${contract.op} has no binding '${name}'`);
  return binding;
}

function dispatchInputsOf(
  context: PlanContext,
  { site, nodes }: Pick<LabUnit, 'site' | 'nodes'>,
): DispatchInputs[] {
  const { memory, graph } = context;
  const { width, vocabulary, eps } = graph.shape;
  const layer = layerOf({ nodes });
  const { heads, kvHeads, headDim, feedForward } = layerShape(graph.shape, layer);
  const headParams = { heads, kv_heads: kvHeads, head_dim: headDim };
  const token = { buffer: memory.step, offset: memory.layout.tokens };
  const paged = (cache: number | undefined) => ({
    qkv: memory.buffers.qkv,
    token,
    page_table: memory.pageTable,
    k_cache: pageBuffersOf(memory, cache ?? -1).k,
    v_cache: pageBuffersOf(memory, cache ?? -1).v,
  });
  const perToken = (inputs: Omit<DispatchInputs, 'rows'>): DispatchInputs[] => [
    { ...inputs, rows: 'tokens' },
  ];
  switch (site.kind) {
    case 'product':
      return productInputs(context, site);
    case 'norm':
      return [
        {
          buffers: {
            x: memory.buffers[site.from],
            y: memory.buffers[site.to],
            norm_weight: vectorOf(context, site.weight),
          },
          params: { columns: width, eps },
          dims: { columns: width },
          rows: site.sampled ? 'samples' : 'tokens',
        },
      ];
    case 'head_norm': {
      const { unit } = site;
      const own = { count: unit.heads, head_dim: headDim };
      const stride = strideOf(context, 'qkv', layer);
      return perToken({
        buffers: { qkv: memory.buffers.qkv, norm_weight: vectorOf(context, unit.weight) },
        params: { ...own, stride, offset: unit.firstHead * headDim, eps },
        dims: own,
      });
    }
    case 'add':
      return perToken({
        buffers: { x: memory.buffers[site.from], y: memory.buffers.hidden },
        params: { columns: width },
        dims: { columns: width },
      });
    case 'norm_add':
      return perToken({
        buffers: {
          x: memory.buffers.projected,
          y: memory.buffers.hidden,
          norm_weight: vectorOf(context, site.weight),
        },
        params: { columns: width, eps },
        dims: { columns: width },
      });
    case 'rotation': {
      const { rotary, style, table } = rotationOf(context, site.unit.rope);
      const own = { ...headParams, rotary };
      return perToken({
        buffers: { ...paged(site.unit.cache), table },
        params: { ...own, neox: Number(style === 'neox'), max_pages: memory.maxPages, page: pageTokens },
        dims: own,
      });
    }
    case 'attention':
      return perToken({
        buffers: { ...paged(site.unit.cache), out: memory.buffers.context },
        params: {
          ...headParams,
          max_pages: memory.maxPages,
          page: pageTokens,
          scale: site.unit.scale,
          window: windowOf(context, site.unit),
        },
        dims: headParams,
      });
    case 'activation':
      return perToken({
        buffers: { gate_up: memory.buffers.gate_up, y: memory.buffers.activated },
        params: {
          columns: feedForward,
          y_stride: strideOf(context, 'activated', layer),
          activation: activationCodes[site.activation],
        },
        dims: { columns: feedForward },
      });
    case 'embed':
      return embedInputs(context, site.weight);
    case 'sample':
      return [
        {
          buffers: {
            samples: { buffer: memory.step, offset: memory.layout.samples, size: memory.samplesBytes },
            logits: memory.buffers.logits,
            seen: memory.tokenCounts,
            sampled: memory.sampled,
            results: memory.results,
          },
          params: { vocabulary },
          dims: { vocabulary },
          rows: 'samples',
        },
      ];
  }
}

function productInputs(
  context: PlanContext,
  site: Extract<BindingSite, { kind: 'product' }>,
): DispatchInputs[] {
  const { memory, graph } = context;
  const { unit, gated, normWeight } = site;
  const biases = unit.biases.length > 0 ? vectorOf(context, stackKey(unit.biases)) : undefined;
  const stack = stackOf(context, unit.weights);
  const parts = slicedPartsOf(context, stack, site.slice);
  // A kernel expects the rows of up after those of gate, in the same buffer and format.
  if (gated && parts.length > 1) {
    throw new Error(
      `${stackKey(unit.weights)} are stored in ${parts.length} parts and cannot be read by one kernel`,
    );
  }
  return parts.map((part): DispatchInputs => {
    const { blocks, format } = part;
    const rows = gated ? part.rows / 2 : part.rows;
    return {
      buffers: {
        quants: part.quants,
        scales: part.scales,
        x: memory.buffers[site.from],
        y: memory.buffers[site.to],
        bias: biases ? bindRange(context, biases, part.firstRow * 4, rows * 4) : memory.dummyRead,
        ...(normWeight === undefined ? {} : { norm_weight: vectorOf(context, normWeight) }),
      },
      params: {
        rows,
        blocks,
        x_stride: strideOf(context, site.from, layerOf(unit)),
        y_stride: strideOf(context, site.to, layerOf(unit)),
        y_offset: gated ? 0 : part.firstRow,
        has_bias: Number(biases !== undefined),
        eps: graph.shape.eps,
        ...(gated ? { activation: activationCodes[gated] } : { scale: unit.scale }),
      },
      dims: { rows, columns: blocks * 32, blocks, block_bytes: averageBlockBytes(weightFormat(format)) },
      rows: unit.sampled ? 'samples' : 'tokens',
      format,
    };
  });
}

function embedInputs(context: PlanContext, weight: string): DispatchInputs[] {
  const { memory, graph } = context;
  const { parts } = stackOf(context, [weight]);
  const [part] = parts;
  if (!part || parts.length > 1) {
    throw new Error(`${weight} is stored in ${parts.length} parts, which no lab kernel can read`);
  }
  const { rows, blocks, format } = part;
  return [
    {
      buffers: {
        quants: part.quants,
        scales: part.scales,
        token: { buffer: memory.step, offset: memory.layout.tokens },
        sampled: memory.sampled,
        y: memory.buffers.hidden,
      },
      params: { blocks, scale: graph.shape.embeddingScale },
      dims: {
        vocabulary: rows,
        columns: blocks * 32,
        blocks,
        block_bytes: averageBlockBytes(weightFormat(format)),
      },
      rows: 'tokens',
      format,
    },
  ];
}
