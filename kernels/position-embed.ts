import { ceilDiv, cartesianProduct, defineKernel } from './define.ts';
import { formatNames } from './formats.ts';

export interface PositionEmbedVariant extends Record<string, number | boolean | string> {
  /** Whether the model has a position table, in FORMAT. */
  POSITIONS: boolean;
  FORMAT: string;
  WG: number;
}

/** y[t, c] += P[position of t, c] + type[c], each term if the model has it. */
export const positionEmbed = defineKernel({
  op: 'position_embed',
  source: 'position_embed.wgsl',
  bindings: ({ POSITIONS }: PositionEmbedVariant) => [
    ['y', 'read_write'],
    ['token_type', 'read'],
    ['params', 'uniform'],
    ['step', 'uniform'],
    POSITIONS ? ['token', 'read'] : undefined,
    POSITIONS ? ['quants', 'read'] : undefined,
    POSITIONS ? ['scales', 'read'] : undefined,
  ],
  params: [
    ['rows', 'u32'],
    ['first_row', 'u32'],
    ['blocks', 'u32'],
    ['has_token_type', 'u32'],
  ],
  grid: (variant, params: { blocks: number } & Record<string, number>, dims) => [
    ceilDiv(params.blocks * 8, variant.WG),
    dims.tokens,
    1,
  ],
  variants: [
    ...cartesianProduct({ POSITIONS: [true], FORMAT: formatNames, WG: [64] }),
    { POSITIONS: false, FORMAT: '', WG: 64 },
  ],
});
