/** How weights lie on the GPU; the name picks `lib/weight_*.wgsl`, which says what the bits of a block mean. */
export interface WeightFormat {
  readonly name: string;
  /** A multiple of 8: rows of blocks without gaps, read as 16-byte words. */
  readonly quantBytesPerBlock: number;
  /** What else a block needs (scales, minima, high bits), apart, for some neighbouring blocks together. */
  readonly scaleGroup: ScaleGroup;
}

export interface ScaleGroup {
  readonly blocks: number;
  /** Whole words. */
  readonly bytes: number;
  /** Every row begins a group; else the blocks of all rows are counted on. */
  readonly byRow?: true;
}

/** Weights a block in every format: the inner loops work on blocks of 32 columns. */
export const blockColumns = 32;

const none: ScaleGroup = { blocks: 1, bytes: 0 };

export const weightFormats = {
  F32: { name: 'f32', quantBytesPerBlock: 128, scaleGroup: none },
  F16: { name: 'f16', quantBytesPerBlock: 64, scaleGroup: none },
  BF16: { name: 'bf16', quantBytesPerBlock: 64, scaleGroup: none },
  Q8_0: { name: 'q8_0', quantBytesPerBlock: 32, scaleGroup: { blocks: 2, bytes: 4 } },
  Q4_0: { name: 'q4_0', quantBytesPerBlock: 16, scaleGroup: { blocks: 2, bytes: 4 } },
  Q4_1: { name: 'q4_1', quantBytesPerBlock: 16, scaleGroup: { blocks: 1, bytes: 4 } },
  Q5_0: { name: 'q5_0', quantBytesPerBlock: 16, scaleGroup: { blocks: 2, bytes: 12 } },
  Q5_1: { name: 'q5_1', quantBytesPerBlock: 16, scaleGroup: { blocks: 1, bytes: 8 } },
  Q2_K: { name: 'q2_k', quantBytesPerBlock: 8, scaleGroup: { blocks: 8, bytes: 20 } },
  Q3_K: { name: 'q3_k', quantBytesPerBlock: 8, scaleGroup: { blocks: 8, bytes: 52 } },
  Q4_K: { name: 'q4_k', quantBytesPerBlock: 16, scaleGroup: { blocks: 8, bytes: 20 } },
  Q5_K: { name: 'q5_k', quantBytesPerBlock: 16, scaleGroup: { blocks: 8, bytes: 52 } },
  Q6_K: { name: 'q6_k', quantBytesPerBlock: 16, scaleGroup: { blocks: 8, bytes: 84 } },
  IQ4_NL: { name: 'iq4_nl', quantBytesPerBlock: 16, scaleGroup: { blocks: 2, bytes: 4 } },
  IQ4_XS: { name: 'iq4_xs', quantBytesPerBlock: 16, scaleGroup: { blocks: 8, bytes: 12 } },
  MXFP4: { name: 'mxfp4', quantBytesPerBlock: 16, scaleGroup: { blocks: 4, bytes: 4 } },
  MLC_Q4F32: { name: 'mlc_q4f32', quantBytesPerBlock: 16, scaleGroup: { blocks: 1, bytes: 4 } },
  // Five blocks are four of MLC's groups of 40 columns.
  MLC_Q3F16: { name: 'mlc_q3f16', quantBytesPerBlock: 8, scaleGroup: { blocks: 5, bytes: 28, byRow: true } },
} as const satisfies Record<string, WeightFormat>;

export type FormatName = (typeof weightFormats)[keyof typeof weightFormats]['name'];

export const formatNames = Object.values(weightFormats).map(({ name }) => name) as [
  FormatName,
  ...FormatName[],
];

const byName: ReadonlyMap<string, WeightFormat> = new Map(
  Object.values(weightFormats).map((format) => [format.name, format]),
);

export function weightFormat(name: string): WeightFormat {
  const format = byName.get(name);
  if (!format) throw new Error(`weight format '${name}': expected one of ${formatNames.join(', ')}`);
  return format;
}

/** Rows of whole blocks. */
interface Extent {
  readonly rows: number;
  readonly blocks: number;
}

/** Bytes of the `quants` of a matrix. */
export const quantBytes = ({ quantBytesPerBlock }: WeightFormat, { rows, blocks }: Extent): number =>
  Math.ceil((rows * blocks * quantBytesPerBlock) / 16) * 16;

/** Bytes of the `scales` of a matrix; 0 where the format has none. */
export function scaleBytes({ scaleGroup }: WeightFormat, { rows, blocks }: Extent): number {
  const { blocks: together, bytes, byRow } = scaleGroup;
  return bytes * (byRow ? rows * Math.ceil(blocks / together) : Math.ceil((rows * blocks) / together));
}

/** Bytes of 32 weights with their scale, on average over many of them. */
export const blockBytes = ({ quantBytesPerBlock, scaleGroup }: WeightFormat): number =>
  quantBytesPerBlock + scaleGroup.bytes / scaleGroup.blocks;
