/** Writes valid or deliberately invalid GGUF files for tests and benchmarks. */
import { open } from 'node:fs/promises';
import { tensorTypes, type TensorType } from '../../src/engine/formats/model-file.ts';

/** Value types of GGUF. */
export type GgufType = Exclude<TensorType, 'MLC_Q4F32' | 'MLC_Q3F16'>;

const typeNumbers: Readonly<Record<GgufType, number>> = {
  F32: 0,
  F16: 1,
  Q4_0: 2,
  Q4_1: 3,
  Q5_0: 6,
  Q5_1: 7,
  Q8_0: 8,
  Q2_K: 10,
  Q3_K: 11,
  Q4_K: 12,
  Q5_K: 13,
  Q6_K: 14,
  IQ4_NL: 20,
  IQ4_XS: 23,
  BF16: 30,
  MXFP4: 39,
};
const valueTypes = {
  u8: 0,
  i8: 1,
  u16: 2,
  i16: 3,
  u32: 4,
  i32: 5,
  f32: 6,
  bool: 7,
  string: 8,
  array: 9,
  u64: 10,
  i64: 11,
  f64: 12,
} as const;
type ScalarType = Exclude<keyof typeof valueTypes, 'string' | 'array'>;

/** A metadata value with its type in the file. */
export type GgufValue =
  | { type: ScalarType; value: number | bigint | boolean }
  | { type: 'string'; value: string }
  | { type: 'array'; of: keyof typeof valueTypes; value: readonly GgufValue[] };

export const u32 = (value: number): GgufValue => ({ type: 'u32', value });
export const f32 = (value: number): GgufValue => ({ type: 'f32', value });
export const bool = (value: boolean): GgufValue => ({ type: 'bool', value });
export const text = (value: string): GgufValue => ({ type: 'string', value });
export const scalar = (type: ScalarType, value: number | bigint | boolean): GgufValue => ({ type, value });
export const texts = (values: readonly string[]): GgufValue => ({
  type: 'array',
  of: 'string',
  value: values.map(text),
});
export const scalars = (of: ScalarType, values: readonly (number | bigint | boolean)[]): GgufValue => ({
  type: 'array',
  of,
  value: values.map((value) => scalar(of, value)),
});

export interface GgufTensor {
  readonly name: string;
  readonly type: GgufType;
  /** Outermost first, as in `TensorInfo`. */
  readonly shape: readonly number[];
  /** In the file's encoding; generated only when written. */
  readonly data: () => Uint8Array;
}

export interface GgufFile {
  readonly metadata: readonly (readonly [string, GgufValue])[];
  readonly tensors: readonly GgufTensor[];
  /** Default 3. */
  readonly version?: number;
  /** Default 32; written as `general.alignment` when given. */
  readonly alignment?: number;
  /** Numbers to write instead of the correct ones. */
  readonly lies?: {
    readonly tensorCount?: bigint;
    readonly metadataCount?: bigint;
    readonly types?: Readonly<Record<string, number>>;
    readonly offsets?: Readonly<Record<string, bigint>>;
    /** Dimensions as the file has them, innermost first. */
    readonly dimensions?: Readonly<Record<string, readonly bigint[]>>;
  };
}

/** A growing byte buffer. */
class Writer {
  #bytes = new Uint8Array(1 << 16);
  #view = new DataView(this.#bytes.buffer);
  length = 0;

  room(length: number): number {
    const at = this.length;
    this.length += length;
    if (this.length > this.#bytes.length) {
      const grown = new Uint8Array(this.length * 2);
      grown.set(this.#bytes);
      this.#bytes = grown;
      this.#view = new DataView(grown.buffer);
    }
    return at;
  }
  u32(value: number): void {
    const at = this.room(4);
    this.#view.setUint32(at, value, true);
  }
  u64(value: number | bigint): void {
    const at = this.room(8);
    this.#view.setBigUint64(at, BigInt(value), true);
  }
  text(value: string): void {
    const bytes = new TextEncoder().encode(value);
    this.u64(bytes.length);
    const at = this.room(bytes.length);
    this.#bytes.set(bytes, at);
  }
  scalar(type: ScalarType, value: number | bigint | boolean): void {
    const write = scalarWriters[type];
    const at = this.room(write.bytes);
    write.set(this.#view, at, value);
  }
  taken(): Uint8Array<ArrayBuffer> {
    return this.#bytes.slice(0, this.length);
  }
}

const scalarWriters: Readonly<
  Record<
    ScalarType,
    { bytes: number; set: (view: DataView, at: number, value: number | bigint | boolean) => void }
  >
> = {
  u8: { bytes: 1, set: (view, at, value) => view.setUint8(at, Number(value)) },
  i8: { bytes: 1, set: (view, at, value) => view.setInt8(at, Number(value)) },
  bool: { bytes: 1, set: (view, at, value) => view.setUint8(at, Number(value)) },
  u16: { bytes: 2, set: (view, at, value) => view.setUint16(at, Number(value), true) },
  i16: { bytes: 2, set: (view, at, value) => view.setInt16(at, Number(value), true) },
  u32: { bytes: 4, set: (view, at, value) => view.setUint32(at, Number(value), true) },
  i32: { bytes: 4, set: (view, at, value) => view.setInt32(at, Number(value), true) },
  f32: { bytes: 4, set: (view, at, value) => view.setFloat32(at, Number(value), true) },
  f64: { bytes: 8, set: (view, at, value) => view.setFloat64(at, Number(value), true) },
  u64: { bytes: 8, set: (view, at, value) => view.setBigUint64(at, BigInt(value), true) },
  i64: { bytes: 8, set: (view, at, value) => view.setBigInt64(at, BigInt(value), true) },
};

const writeValue = (writer: Writer, value: GgufValue): void => {
  if (value.type === 'string') writer.text(value.value);
  else if (value.type === 'array') {
    writer.u32(valueTypes[value.of]);
    writer.u64(value.value.length);
    for (const element of value.value) writeValue(writer, element);
  } else writer.scalar(value.type, value.value);
};

const sizeOf = ({ type, shape }: GgufTensor): number => {
  const { blockElements, blockBytes } = tensorTypes[type];
  return (shape.reduce((product, extent) => product * extent, 1) / blockElements) * blockBytes;
};

const align = (value: number, alignment: number): number => Math.ceil(value / alignment) * alignment;

/** The header with its padding, and the offset of each tensor after it. */
const layOut = (file: GgufFile): { header: Uint8Array<ArrayBuffer>; offsets: number[] } => {
  const { metadata, tensors, lies = {}, alignment = 32 } = file;
  const entries =
    file.alignment === undefined ? metadata : [...metadata, ['general.alignment', u32(alignment)] as const];
  const writer = new Writer();
  writer.u32(0x46554747);
  writer.u32(file.version ?? 3);
  writer.u64(lies.tensorCount ?? tensors.length);
  writer.u64(lies.metadataCount ?? entries.length);
  for (const [key, value] of entries) {
    writer.text(key);
    writer.u32(valueTypes[value.type]);
    writeValue(writer, value);
  }
  // A deliberately invalid alignment still needs an offset to write.
  const step = Math.max(1, alignment);
  let offset = 0;
  const offsets = tensors.map((tensor) => {
    const dimensions = lies.dimensions?.[tensor.name] ?? tensor.shape.map(BigInt).reverse();
    writer.text(tensor.name);
    writer.u32(dimensions.length);
    for (const extent of dimensions) writer.u64(extent);
    writer.u32(lies.types?.[tensor.name] ?? typeNumbers[tensor.type]);
    writer.u64(lies.offsets?.[tensor.name] ?? offset);
    const at = offset;
    offset = align(offset + sizeOf(tensor), step);
    return at;
  });
  writer.room(align(writer.length, step) - writer.length);
  return { header: writer.taken(), offsets };
};

/** A whole file in memory. */
export const ggufBytes = (file: GgufFile): Uint8Array<ArrayBuffer> => {
  const { header, offsets } = layOut(file);
  const last = file.tensors.at(-1);
  const bytes = new Uint8Array(header.length + (last ? (offsets.at(-1) ?? 0) + sizeOf(last) : 0));
  bytes.set(header);
  file.tensors.forEach((tensor, index) => bytes.set(tensor.data(), header.length + (offsets[index] ?? 0)));
  return bytes;
};

/** Writes a file tensor by tensor, so it may be larger than memory. */
export const writeGguf = async (path: string, file: GgufFile): Promise<void> => {
  const { header, offsets } = layOut(file);
  const handle = await open(path, 'w');
  try {
    await handle.write(header, 0, header.length, 0);
    for (const [index, tensor] of file.tensors.entries()) {
      const data = tensor.data();
      await handle.write(data, 0, data.length, header.length + (offsets[index] ?? 0));
    }
  } finally {
    await handle.close();
  }
};
