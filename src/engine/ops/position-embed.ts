/** Learned positions and token types of embedding models. */
import { positionEmbed as kernel } from '../../../kernels/position-embed.ts';
import { type PlanContext, stackOf, vectorOf } from '../execution/plan-context.ts';
import { dispatchId, planDispatch, type PlannedDispatch, singleOption } from '../execution/plan-dispatch.ts';
import type { UnitBase } from '../graph/graph.ts';
import { type Op, unitCost } from './op.ts';

/** Adds a row of the position table, and that of the token type, to `hidden`. */
export interface PositionEmbedUnit extends UnitBase {
  readonly op: 'position_embed';
  readonly positions?: string;
  /** The first row is for all tokens but those of the second segment of a pair, which get the second row, if any. */
  readonly tokenTypes?: { readonly weight: string; readonly rows: number };
}

export const positionEmbed: Op<PositionEmbedUnit> = {
  plan: planPositions,
  matrices: ({ positions }) => [positions ?? []].flat(),
  vectors: ({ tokenTypes }) => [[tokenTypes?.weight ?? []].flat()],
  cost: (_, { tokens, shape: { width } }) => unitCost(tokens * width, 3 * tokens * width),
};

async function planPositions(context: PlanContext, unit: PositionEmbedUnit): Promise<PlannedDispatch[]> {
  const { memory, graph } = context;
  const tokenTypes = unit.tokenTypes?.rows ?? 0;
  const buffers = {
    y: memory.buffers.hidden,
    token_type: unit.tokenTypes === undefined ? memory.dummyRead : vectorOf(context, unit.tokenTypes.weight),
  };
  if (unit.positions === undefined) {
    const variant = { POSITIONS: false, FORMAT: '', WG: 64 };
    const params = { rows: 0, first_row: 0, blocks: graph.shape.width / 32, token_types: tokenTypes };
    return [await planDispatch(context, unit.id, singleOption(kernel, variant), params, buffers)];
  }
  return await Promise.all(
    stackOf(context, [unit.positions]).parts.map((part, index) =>
      planDispatch(
        context,
        dispatchId(unit.id, index),
        singleOption(kernel, { POSITIONS: true, FORMAT: part.format, WG: 64 }),
        // The token type is added only once.
        {
          rows: part.rows,
          first_row: part.firstRow,
          blocks: part.blocks,
          token_types: index === 0 ? tokenTypes : 0,
        },
        { ...buffers, quants: part.quants, scales: part.scales },
      ),
    ),
  );
}
