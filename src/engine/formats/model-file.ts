/** Common interface of all model file formats: metadata, tensor table, and reads of row ranges. */

/** ggml tensor types by their ggml names, and two MLC types that no ggml type can represent exactly. */
export type TensorType =
  | 'F32'
  | 'F16'
  | 'BF16'
  | 'Q8_0'
  | 'Q4_0'
  | 'Q4_1'
  | 'Q5_0'
  | 'Q5_1'
  | 'Q2_K'
  | 'Q3_K'
  | 'Q4_K'
  | 'Q5_K'
  | 'Q6_K'
  | 'IQ4_NL'
  | 'IQ4_XS'
  | 'MXFP4'
  /** 32 weights: f32 scale, 16 bytes of nibbles in Q4_0's order; value (q - 7) * scale. */
  | 'MLC_Q4F32'
  /** 40 weights: f16 scale, four u32 of ten 3-bit quants each, the first in the low bits; value (q - 3) * scale. */
  | 'MLC_Q3F16';

/** Elements and bytes of one quantization block in the file. */
export interface TypeTraits {
  readonly blockElements: number;
  readonly blockBytes: number;
}

export const tensorTypes: Readonly<Record<TensorType, TypeTraits>> = {
  F32: { blockElements: 1, blockBytes: 4 },
  F16: { blockElements: 1, blockBytes: 2 },
  BF16: { blockElements: 1, blockBytes: 2 },
  Q8_0: { blockElements: 32, blockBytes: 34 },
  Q4_0: { blockElements: 32, blockBytes: 18 },
  Q4_1: { blockElements: 32, blockBytes: 20 },
  Q5_0: { blockElements: 32, blockBytes: 22 },
  Q5_1: { blockElements: 32, blockBytes: 24 },
  Q2_K: { blockElements: 256, blockBytes: 84 },
  Q3_K: { blockElements: 256, blockBytes: 110 },
  Q4_K: { blockElements: 256, blockBytes: 144 },
  Q5_K: { blockElements: 256, blockBytes: 176 },
  Q6_K: { blockElements: 256, blockBytes: 210 },
  IQ4_NL: { blockElements: 32, blockBytes: 18 },
  IQ4_XS: { blockElements: 256, blockBytes: 136 },
  MXFP4: { blockElements: 32, blockBytes: 17 },
  MLC_Q4F32: { blockElements: 32, blockBytes: 20 },
  MLC_Q3F16: { blockElements: 40, blockBytes: 18 },
};

export interface TensorInfo {
  readonly name: string;
  readonly type: TensorType;
  /** Outermost first, as numpy prints it: a weight matrix is `[rows (out), cols (in)]`. GGUF stores the reverse. */
  readonly shape: readonly number[];
  /** Absolute byte offset in its file, or another position that only the format's reader interprets. */
  readonly offset: number;
  readonly sizeBytes: number;
}

export type MetadataScalar = string | number | bigint | boolean;
/** Numeric arrays stay typed arrays; arrays of strings are plain arrays. */
export type MetadataArray =
  | readonly string[]
  | readonly boolean[]
  | Int8Array
  | Uint8Array
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array
  | Float32Array
  | Float64Array
  | readonly MetadataArray[];
export type Metadata = ReadonlyMap<string, MetadataScalar | MetadataArray>;

export interface ModelFile {
  readonly format: 'gguf' | 'mlc' | 'hugging-face';
  /** A path or a URL, for messages. */
  readonly name: string;
  /** Total size of all files. */
  readonly sizeBytes: number;
  readonly metadata: Metadata;
  readonly tensors: ReadonlyMap<string, TensorInfo>;
  /** Notes for the person who loads the model, one sentence each. */
  readonly notes?: readonly string[];
  /** Reads the raw bytes of rows `[firstRow, firstRow + rows)` in the tensor's type. A 1-D tensor is one row. */
  readRows(tensor: TensorInfo, firstRow: number, rows: number, into?: Uint8Array): Promise<Uint8Array>;
  close(): Promise<void>;
}

/** Limits error messages, which quote names and values from files. */
const maxCharacters = 2000;

/** A model file that cannot be used. The message says what to do about it; `code` is stable. */
export class ModelFileError extends Error {
  readonly code: string;
  constructor(code: string, message: string) {
    super(message.length <= maxCharacters ? message : `${message.slice(0, maxCharacters)}...`);
    this.name = 'ModelFileError';
    this.code = code;
  }
}
