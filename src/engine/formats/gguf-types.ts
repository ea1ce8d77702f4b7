import type { TensorType } from './model-file.ts';

/** Supported tensor types by their number in a GGUF tensor table. */
export const ggufTensorTypes: ReadonlyMap<number, TensorType> = new Map([
  [0, 'F32'],
  [1, 'F16'],
  [2, 'Q4_0'],
  [3, 'Q4_1'],
  [6, 'Q5_0'],
  [7, 'Q5_1'],
  [8, 'Q8_0'],
  [10, 'Q2_K'],
  [11, 'Q3_K'],
  [12, 'Q4_K'],
  [13, 'Q5_K'],
  [14, 'Q6_K'],
  [20, 'IQ4_NL'],
  [23, 'IQ4_XS'],
  [30, 'BF16'],
  [39, 'MXFP4'],
]);

/** Names of unsupported types, for error messages. */
const unsupportedTypeNames: ReadonlyMap<number, string> = new Map([
  [9, 'Q8_1'],
  [15, 'Q8_K'],
  [16, 'IQ2_XXS'],
  [17, 'IQ2_XS'],
  [18, 'IQ3_XXS'],
  [19, 'IQ1_S'],
  [21, 'IQ3_S'],
  [22, 'IQ2_S'],
  [24, 'I8'],
  [25, 'I16'],
  [26, 'I32'],
  [27, 'I64'],
  [28, 'F64'],
  [29, 'IQ1_M'],
  [34, 'TQ1_0'],
  [35, 'TQ2_0'],
  [40, 'NVFP4'],
]);

export const ggufTypeName = (type: number): string =>
  ggufTensorTypes.get(type) ?? unsupportedTypeNames.get(type) ?? `type number ${type}`;
