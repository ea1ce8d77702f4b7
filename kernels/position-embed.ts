import { ceilDiv, cartesianProduct, defineKernel } from './define.ts';
import { formatNames } from './formats.ts';

export interface PositionEmbedVariant extends Record<string, number | boolean | string> {
  /** Whether the model has a position table, in FORMAT. */
  POSITIONS: boolean;
  FORMAT: string;
  WG: number;
}

/** The bit of a token's flags that marks the second segment of a pair: a document that is compared with a query. */
export const secondSegmentFlag = 2;

/** y[t, c] += P[position of t, c] + type[segment of t, c], each term if the model has it. */
export const positionEmbed = defineKernel({
  op: 'position_embed',
  source: 'position_embed.wgsl',
  bindings: ({ POSITIONS }: PositionEmbedVariant) => [
    ['y', 'read_write'],
    ['token_type', 'read'],
    ['params', 'uniform'],
    ['step', 'uniform'],
    ['token', 'read'],
    POSITIONS ? ['quants', 'read'] : undefined,
    POSITIONS ? ['scales', 'read'] : undefined,
  ],
  params: [
    ['rows', 'u32'],
    ['first_row', 'u32'],
    ['blocks', 'u32'],
    ['token_types', 'u32'],
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
