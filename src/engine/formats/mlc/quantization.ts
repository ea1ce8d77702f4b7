import { ModelFileError, type TensorType } from '../model-file.ts';
import type { MlcArray } from './tensor-cache.ts';

/** How matrices are quantized: 4 or 3 bits in groups along a row, or not at all. */
export interface Quantization {
  readonly name: string;
  /** Undefined when nothing is quantized. */
  readonly group?: QuantizationGroup;
}

interface QuantizationGroup {
  /** Weights that share one scale. */
  readonly columns: 32 | 40;
  /** The tensor type that groups are converted to, by the type of their scales. */
  readonly types: Readonly<Partial<Record<MlcArray['type'], TensorType>>>;
}

/** 32-bit words per group in every supported quantization: 32 * 4 bits, or 40 * 3 bits (30 bits used per word). */
export const groupWords = 4;

const group4Bit: QuantizationGroup = {
  columns: 32,
  types: { F16: 'Q4_0', F32: 'MLC_Q4F32', BF16: 'MLC_Q4F32' },
};
const group3Bit: QuantizationGroup = { columns: 40, types: { F16: 'MLC_Q3F16' } };

/**
 * Supported quantizations, whose groups run along rows; those named `_0` group along columns. `_2` does not quantize
 * the embedding and the output matrix.
 */
const groupsByName: Readonly<Record<string, QuantizationGroup | undefined>> = {
  q4f16_1: group4Bit,
  q4f16_2: group4Bit,
  q4bf16_1: group4Bit,
  q4f32_1: group4Bit,
  q3f16_1: group3Bit,
  q0f16: undefined,
  q0bf16: undefined,
  q0f32: undefined,
};

/** @throws ModelFileError `unsupported_type` */
export const parseQuantization = (modelName: string, name: unknown): Quantization => {
  if (typeof name === 'string' && Object.hasOwn(groupsByName, name)) {
    const group = groupsByName[name];
    return { name, ...(group ? { group } : {}) };
  }
  throw new ModelFileError(
    'unsupported_type',
    `${modelName}: mlc-chat-config.json: quantization '${String(name)}' is not supported ` +
      `(supported: ${Object.keys(groupsByName).join(', ')}); download the model in one of these, for example q4f16_1`,
  );
};
