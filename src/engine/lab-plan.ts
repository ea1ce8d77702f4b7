/** Binds lab kernels to the tensors of the live graph according to their contracts. */
import {
  activationCodes,
  type Contract,
  type ContractBinding,
  packUniform,
} from '../../kernels/contracts.ts';
import { blockBytes, weightFormat } from '../../kernels/formats.ts';
import { pageTokens } from '../../kernels/rope-kv-write.ts';
import type { Dims, LabUnit, Site } from './bindings.ts';
import { layerShape } from './graph.ts';
import { pagesOf } from './memory.ts';
import {
  type Bound,
  type Dispatch,
  layerOf,
  type PlanContext,
  rotationOf,
  stackOf,
  strideOf,
  vectorOf,
  windowOf,
} from './plan-context.ts';
import type { Planned } from './plan-dispatch.ts';
import { partsOf, rangeOf } from './weight-slices.ts';
import { stackKey } from './weights.ts';

/** The inputs of one dispatch, by the names of its contract. */
interface Given {
  readonly buffers: Readonly<Record<string, Bound>>;
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
export const labGain = ({ site }: LabUnit): string | undefined =>
  site.kind === 'product' ? site.gain : undefined;

export async function planLab(context: PlanContext, unit: LabUnit): Promise<Planned[]> {
  const given = givenOf(context, unit);
  return Promise.all(
    given.map((one, index) =>
      dispatchOf(context, unit, one, index === 0 ? unit.id : `${unit.id}#${index + 1}`),
    ),
  );
}

async function dispatchOf(context: PlanContext, unit: LabUnit, given: Given, id: string): Promise<Planned> {
  const { kernel } = unit;
  const { memory, pool } = context;
  const { pipeline, layout } = await context.pipelines.getLab(kernel);
  // Offset 0 holds the step header; offset 256 holds the same header with the sampled rows in place of the tokens.
  const header = given.rows === 'samples' ? memory.layout.sampledHeader : 0;
  const buffers: Readonly<Record<string, Bound>> = {
    ...given.buffers,
    params: pool.uniform(`${id}.params`, packUniform(bindingOf(kernel.contract, 'params'), given.params)),
    step: { buffer: memory.step, offset: header, size: 16 },
  };
  const entries = kernel.contract.bindings.map(({ name }, binding) => {
    const bound = buffers[name];
    if (!bound) throw new Error(`${id}: nothing bound to ${name}`);
    return { binding, resource: 'buffer' in bound ? bound : { buffer: bound } };
  });
  // One object is reused for all steps, so decoding allocates nothing.
  const dims: Dims = { ...given.dims, tokens: 0, context: 0 };
  return {
    id,
    op: kernel.contract.op,
    rows: given.rows,
    bindGroup: context.gpu.device.createBindGroup({ label: id, layout, entries }),
    choices: [
      {
        upTo: Number.POSITIVE_INFINITY,
        promptOnly: false,
        kernel: kernel.name,
        pipeline,
        grid(step) {
          dims['tokens'] = given.rows === 'samples' ? step.samples : step.tokens;
          return kernel.grid(dims);
        },
      },
    ],
    lab: {
      kernel,
      target: unit.id,
      buffers,
      params: given.params,
      dims: given.dims,
      ...(given.format === undefined ? {} : { format: given.format }),
    },
  };
}

function bindingOf(contract: Contract, name: string): ContractBinding {
  const binding = contract.bindings.find((one) => one.name === name);
  if (!binding) throw new Error(`${contract.op} has no binding '${name}'`);
  return binding;
}

function givenOf(context: PlanContext, { site, nodes }: Pick<LabUnit, 'site' | 'nodes'>): Given[] {
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
    k_cache: pagesOf(memory, cache ?? -1).k,
    v_cache: pagesOf(memory, cache ?? -1).v,
  });
  const ofTokens = (given: Omit<Given, 'rows'>): Given[] => [{ ...given, rows: 'tokens' }];
  switch (site.kind) {
    case 'product':
      return givenProduct(context, site);
    case 'norm':
      return [
        {
          buffers: {
            x: memory.buffers[site.from],
            y: memory.buffers[site.to],
            gain: vectorOf(context, site.weight),
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
      return ofTokens({
        buffers: { qkv: memory.buffers.qkv, gain: vectorOf(context, unit.weight) },
        params: { ...own, stride, offset: unit.firstHead * headDim, eps },
        dims: own,
      });
    }
    case 'add':
      return ofTokens({
        buffers: { x: memory.buffers[site.from], y: memory.buffers.hidden },
        params: { columns: width },
        dims: { columns: width },
      });
    case 'norm_add':
      return ofTokens({
        buffers: {
          x: memory.buffers.projected,
          y: memory.buffers.hidden,
          gain: vectorOf(context, site.weight),
        },
        params: { columns: width, eps },
        dims: { columns: width },
      });
    case 'rotation': {
      const { rotary, style, table } = rotationOf(context, site.unit.rope);
      const own = { ...headParams, rotary };
      return ofTokens({
        buffers: { ...paged(site.unit.cache), table },
        params: { ...own, neox: Number(style === 'neox'), max_pages: memory.maxPages, page: pageTokens },
        dims: own,
      });
    }
    case 'attention':
      return ofTokens({
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
      return ofTokens({
        buffers: { gate_up: memory.buffers.gate_up, y: memory.buffers.activated },
        params: {
          columns: feedForward,
          y_stride: strideOf(context, 'activated', layer),
          activation: activationCodes[site.activation],
        },
        dims: { columns: feedForward },
      });
    case 'embed':
      return givenEmbed(context, site.weight);
    case 'sample':
      return [
        {
          buffers: {
            samples: { buffer: memory.step, offset: memory.layout.samples, size: memory.samplesBytes },
            logits: memory.buffers.logits,
            seen: memory.seen,
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

function givenProduct(context: PlanContext, site: Extract<Site, { kind: 'product' }>): Given[] {
  const { memory, graph } = context;
  const { unit, gated, gain } = site;
  const biases = unit.biases.length > 0 ? vectorOf(context, stackKey(unit.biases)) : undefined;
  const stack = stackOf(context, unit.weights);
  const parts = partsOf(context, stack, site.slice);
  // A kernel expects the rows of up after those of gate, in the same buffer and format.
  if (gated && parts.length > 1) {
    throw new Error(
      `${stackKey(unit.weights)} are stored in ${parts.length} parts and cannot be read by one kernel`,
    );
  }
  return parts.map((part): Given => {
    const { blocks, format } = part;
    const rows = gated ? part.rows / 2 : part.rows;
    return {
      buffers: {
        quants: part.quants,
        scales: part.scales,
        x: memory.buffers[site.from],
        y: memory.buffers[site.to],
        bias: biases ? rangeOf(context, biases, part.firstRow * 4, rows * 4) : memory.nothing,
        ...(gain === undefined ? {} : { gain: vectorOf(context, gain) }),
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
      dims: { rows, columns: blocks * 32, blocks, block_bytes: blockBytes(weightFormat(format)) },
      rows: unit.sampled ? 'samples' : 'tokens',
      format,
    };
  });
}

function givenEmbed(context: PlanContext, weight: string): Given[] {
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
        block_bytes: blockBytes(weightFormat(format)),
      },
      rows: 'tokens',
      format,
    },
  ];
}
