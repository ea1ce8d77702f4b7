/** Products with the experts that a token selected. */
import type { AdapterCaps } from '../../../kernels/define.ts';
import { expertFlags, expertOptions } from '../../../kernels/experts.ts';
import { kernelCaps, type PlanContext, stackOf, vectorOf } from '../execution/plan-context.ts';
import { dispatchId, loopLimit, planDispatch, type PlannedDispatch } from '../execution/plan-dispatch.ts';
import { expertRoles } from '../memory/expert-memory.ts';
import type { UnitBase } from '../graph/graph.ts';
import { expertsOf } from './experts.ts';
import { matrixOf, type Op, unitCost } from './op.ts';

/** `swiglu_oai`: gate clamped to at most 7, up to [-7, 7]; gate * sigmoid(1.702 gate) * (up + 1). */
export type ExpertActivation = 'silu' | 'swiglu_oai';

/**
 * A product with the selected experts only. `gate`: from `normed` to `expert_gate`. `up`: from `normed`, multiplied
 * by the activation of `expert_gate`, to `expert_activated`. `down`: from `expert_activated` to `expert_out`.
 */
export interface ExpertMatmulUnit extends UnitBase {
  readonly op: 'expert_matmul';
  readonly role: 'gate' | 'up' | 'down';
  /** [experts, rows, columns] */
  readonly weight: string;
  /** [experts, rows] */
  readonly bias?: string;
  readonly activation: ExpertActivation;
}

export const expertMatmul: Op<ExpertMatmulUnit> = {
  plan: planExpertMatmul,
  matrices: ({ weight }) => [weight],
  vectors: ({ bias }) => [[bias ?? []].flat()],
  cost(unit, { tokens, shape: { experts }, tensors }) {
    const { used = 0, count = 1 } = experts ?? {};
    const { rows, columns, bytes } = matrixOf(tensors, unit.weight);
    const rowsPerExpert = rows / count;
    // Expected number of distinct experts when tokens choose independently.
    const expertsRead = count * (1 - (1 - used / count) ** tokens);
    return unitCost(2 * tokens * used * rowsPerExpert * columns, tokens * used * (rowsPerExpert + columns), {
      weightBytes: (bytes / count) * expertsRead,
    });
  },
};

function planExpertMatmul(context: PlanContext, unit: ExpertMatmulUnit): Promise<PlannedDispatch[]> {
  const { experts, memory } = expertsOf(context);
  const { count, used } = experts;
  const { buffers, dummyRead } = context.memory;
  const { parts } = stackOf(context, [unit.weight]);
  const rows = parts.reduce((sum, part) => sum + part.rows, 0) / count;
  const isUp = unit.role === 'up';
  const flags =
    (unit.bias === undefined ? 0 : expertFlags.bias) |
    (unit.role === 'down' ? expertFlags.paired : 0) |
    (isUp ? expertFlags.gated : 0) |
    (isUp && unit.activation === 'swiglu_oai' ? expertFlags.oai : 0);
  const [from, to] = buffersByRole[unit.role];
  return Promise.all(
    parts.map((part, index) =>
      planDispatch(
        context,
        dispatchId(unit.id, index),
        optionsOf(context, part.format),
        {
          rows,
          blocks: part.blocks,
          first_expert: part.firstRow / rows,
          experts: part.rows / rows,
          used,
          flags,
          order_at: memory.orderAt,
          tiles_at: memory.tilesAt,
          computed_at: expertRoles.indexOf(unit.role) * count,
          loop_limit: loopLimit,
          all_experts: count,
          prompt_tiles_at: memory.promptTilesAt,
        },
        {
          quants: part.quants,
          scales: part.scales,
          vectors: unit.bias === undefined ? dummyRead : vectorOf(context, unit.bias),
          x: buffers[from],
          y: buffers[to],
          routes: memory.routed,
          gate: isUp ? buffers.expert_gate : dummyRead,
          computed: memory.computedPairs,
        },
      ),
    ),
  );
}

/** The kernels for a format, without those that gave wrong results on this adapter. */
function optionsOf(context: PlanContext, format: string): ReturnType<typeof expertOptions> {
  const { gpu, family } = context;
  const { experts } = expertsOf(context);
  const optionsFor = (caps: AdapterCaps) => expertOptions(caps, family, format, experts);
  return optionsFor(gpu.caps).map((option, index) => {
    const caps = kernelCaps(context, option.kernel.source, format);
    return optionsFor(caps)[index] ?? option;
  });
}

const buffersByRole = {
  gate: ['normed', 'expert_gate'],
  up: ['normed', 'expert_activated'],
  down: ['expert_activated', 'expert_out'],
} as const;
