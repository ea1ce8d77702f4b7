import { rotatesInAttention } from './attention-choices.ts';
import { type AdapterCaps, defineKernel, lazily, variantsOnAllAdapters } from './define.ts';

export interface RmsNormVariant extends Record<string, number | boolean | string> {
  SUBGROUPS: boolean;
  WG: number;
  /** Rows are the sampled tokens. */
  SAMPLED: boolean;
  IN_PLACE: boolean;
  /** Skips tokens of single-token tiles. */
  PROMPT: boolean;
}

const modes = [{}, { sampled: true }, { inPlace: true }];
const promptMode = { inPlace: true, prompt: true };
/** Only for prompts where attention normalizes the heads of decoded tokens. */
const modesOn = (caps: AdapterCaps) => (rotatesInAttention(caps, 64) ? [...modes, promptMode] : modes);
const variants = lazily(() =>
  variantsOnAllAdapters((caps) =>
    modesOn(caps).flatMap((mode) => rowLaneOptions(caps).map((lanes) => chooseRmsNorm(caps, mode, lanes))),
  ),
);

/** y[r, c] = x[r, c] / sqrt(mean_c x[r, c]^2 + eps) * weight[c]. A row is a token or a head of a token. */
export const rmsNorm = defineKernel({
  op: 'rms_norm',
  source: 'rms_norm.wgsl',
  bindings: (variant: RmsNormVariant) => [
    ['weight', 'read'],
    ['samples', 'read'],
    variant.IN_PLACE ? undefined : ['x', 'read'],
    ['y', 'read_write'],
    ['params', 'uniform'],
    variant.PROMPT ? ['token', 'read'] : undefined,
  ],
  params: [
    ['columns', 'u32'],
    ['heads', 'u32'],
    ['in_stride', 'u32'],
    ['in_offset', 'u32'],
    ['out_stride', 'u32'],
    ['out_offset', 'u32'],
    ['eps', 'f32'],
  ],
  grid: (variant, params: { heads: number } & Record<string, number>, dims) => [
    variant.SAMPLED ? dims.samples : variant.PROMPT && dims.wideTiles === 0 ? 0 : dims.tokens,
    params.heads,
    1,
  ],
  get variants() {
    return variants();
  },
});

/** The threads that share a row: one subgroup, or a workgroup that adds up in workgroup memory. */
export interface RowLanes {
  SUBGROUPS: boolean;
  WG: number;
}

/**
 * What a norm may run with, the default first. A single subgroup needs no barrier, which is best on a CPU; where it has no
 * subgroups, few threads need the fewest. What a GPU is fastest with depends on the length of a row.
 */
export function rowLaneOptions({ software, subgroupSize: lanes = 0 }: AdapterCaps): readonly RowLanes[] {
  const subgroup = lanes > 0 ? [{ SUBGROUPS: true, WG: lanes }] : [];
  if (software) return subgroup.length > 0 ? subgroup : groupsOf([128, 16]);
  return [...groupsOf([128, 256, 64]), ...subgroup];
}

const groupsOf = (sizes: readonly number[]): RowLanes[] => sizes.map((WG) => ({ SUBGROUPS: false, WG }));

/** The default of `rowLaneOptions`. */
export const rowLanes = (caps: AdapterCaps): RowLanes => rowLaneOptions(caps)[0] as RowLanes;

export function chooseRmsNorm(
  caps: AdapterCaps,
  mode: { sampled?: boolean; inPlace?: boolean; prompt?: boolean },
  lanes: RowLanes = rowLanes(caps),
): RmsNormVariant {
  return {
    ...lanes,
    SAMPLED: mode.sampled ?? false,
    IN_PLACE: mode.inPlace ?? false,
    PROMPT: mode.prompt ?? false,
  };
}
