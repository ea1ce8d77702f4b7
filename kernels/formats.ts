/** GPU layout of a weight format. The name selects `lib/weight_*.wgsl`, which documents the bits of a block. */
export interface WeightFormat {
  readonly name: string;
  /** A multiple of 8. Blocks are contiguous and read as 16-byte words. */
  readonly quantBytesPerBlock: number;
  /** Separate data of the blocks (scales, minima, high bits), stored for groups of adjacent blocks. */
  readonly scaleGroup: ScaleGroup;
}

export interface ScaleGroup {
  readonly blocks: number;
  /** A multiple of 4. */
  readonly bytes: number;
  /** Whether every row begins a new group. Otherwise groups continue across rows. */
  readonly restartsEachRow?: true;
}

/** Weights in a block, the same for every format: inner loops process blocks of 32 columns. */
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
  // Five blocks correspond to four MLC groups of 40 columns.
  MLC_Q3F16: {
    name: 'mlc_q3f16',
    quantBytesPerBlock: 8,
    scaleGroup: { blocks: 5, bytes: 28, restartsEachRow: true },
  },
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

/** Size of a matrix in rows and blocks. */
interface MatrixExtent {
  readonly rows: number;
  readonly blocks: number;
}

/** Size in bytes of the `quants` of a matrix. */
export const quantSizeBytes = (
  { quantBytesPerBlock }: WeightFormat,
  { rows, blocks }: MatrixExtent,
): number => Math.ceil((rows * blocks * quantBytesPerBlock) / 16) * 16;

/** Size in bytes of the `scales` of a matrix; 0 for formats without scales. */
export function scaleSizeBytes({ scaleGroup }: WeightFormat, { rows, blocks }: MatrixExtent): number {
  const { blocks: groupBlocks, bytes, restartsEachRow } = scaleGroup;
  return (
    bytes *
    (restartsEachRow ? rows * Math.ceil(blocks / groupBlocks) : Math.ceil((rows * blocks) / groupBlocks))
  );
}

/** Average size in bytes of 32 weights with their scales. */
export const averageBlockBytes = ({ quantBytesPerBlock, scaleGroup }: WeightFormat): number =>
  quantBytesPerBlock + scaleGroup.bytes / scaleGroup.blocks;
