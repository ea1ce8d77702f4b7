/** How a weight lies on the GPU: `quants` in 16-byte words, `scales` as f16; the name picks `lib/weight_*.wgsl`. */
export interface WeightFormat {
  readonly name: string;
  readonly quantBytesPerBlock: number;
  readonly scaleBytesPerBlock: 0 | 2;
}

/** Weights a block in every format: the inner loops work on blocks of 32 columns. */
export const blockColumns = 32;

export const weightFormats = {
  F32: { name: 'f32', quantBytesPerBlock: 128, scaleBytesPerBlock: 0 },
  F16: { name: 'f16', quantBytesPerBlock: 64, scaleBytesPerBlock: 0 },
  BF16: { name: 'bf16', quantBytesPerBlock: 64, scaleBytesPerBlock: 0 },
  Q8_0: { name: 'q8_0', quantBytesPerBlock: 32, scaleBytesPerBlock: 2 },
  Q4_0: { name: 'q4_0', quantBytesPerBlock: 16, scaleBytesPerBlock: 2 },
} as const satisfies Record<string, WeightFormat>;

export const formatNames = Object.values(weightFormats).map((format) => format.name);
