/** One shape for every file format: metadata, tensor table, and ranged reads of rows. */

export type TensorType = 'F32' | 'F16' | 'BF16' | 'Q8_0' | 'Q4_0';

/** Elements and bytes of one block as the file stores it. */
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
};

export interface TensorInfo {
  readonly name: string;
  readonly type: TensorType;
  /** Outermost first, as numpy prints it: a weight matrix is `[rows (out), cols (in)]`. GGUF stores the reverse. */
  readonly shape: readonly number[];
  /** Absolute byte offset in the file. */
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
  readonly format: 'gguf';
  readonly name: string;
  readonly sizeBytes: number;
  readonly metadata: Metadata;
  readonly tensors: ReadonlyMap<string, TensorInfo>;
  /** Raw bytes of rows `[firstRow, firstRow + rows)` of a tensor, in the file's encoding. A 1-D tensor is one row. */
  readRows(tensor: TensorInfo, firstRow: number, rows: number, into?: Uint8Array): Promise<Uint8Array>;
  close(): Promise<void>;
}

/** A model file that cannot be used, with what to do about it. `code` is stable. */
export class ModelFileError extends Error {
  readonly code: string;
  constructor(code: string, message: string) {
    super(message);
    this.name = 'ModelFileError';
    this.code = code;
  }
}
