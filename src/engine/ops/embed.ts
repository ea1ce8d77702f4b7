/** Rows of the embedding matrix. */
import { embed as kernel } from '../../../kernels/embed.ts';
import { averageBlockBytes, weightFormat } from '../../../kernels/formats.ts';
import { type PlanContext, stackOf, vectorOf } from '../execution/plan-context.ts';
import { dispatchId, planDispatch, type PlannedDispatch, singleOption } from '../execution/plan-dispatch.ts';
import type { FusedOp } from '../graph/fusion.ts';
import type { UnitBase } from '../graph/graph.ts';
import { type BindingSite, matrixOf, type Op, unitCost } from './op.ts';

export interface EmbedUnit extends UnitBase {
  readonly op: 'embed';
  readonly weight: string;
}

export const embed: Op<EmbedUnit> = {
  plan: planEmbed,
  vectors: (_, { nextNormWeight }) => [[nextNormWeight ?? []].flat()],
  cost(unit, { tokens, shape: { width }, tensors }) {
    const { rows, bytes } = matrixOf(tensors, unit.weight);
    return unitCost(0, tokens * width, { weightBytes: (tokens * bytes) / rows });
  },
  matrices: ({ weight }) => [weight],
  bind: (unit, { node, boundKernel, replace }) =>
    boundKernel ? [replace(node, boundKernel, embedSite(unit))] : [unit],
};

/** Tensors of a lab kernel of `embed`. */
const embedSite = ({ weight }: EmbedUnit): BindingSite => ({
  inputs(context) {
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
        format,
      },
    ];
  },
});

function planEmbed(
  context: PlanContext,
  unit: EmbedUnit,
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
        singleOption(kernel, { FORMAT: part.format, WG: 64, PART: family.rowsPerPartialSum || 4 }),
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
