/** What compiled kernels call: memory, and numeric functions that JavaScript does not have. */
import { f16FromNumber, numberFromF16, roundToF16 } from '../../../kernels/reference/half.ts';

/** Rounds to the nearest f16. `Math.f16round` is about 20 times as fast as the fallback for older Node. */
export const roundHalf: (value: number) => number =
  (Math as { readonly f16round?: (value: number) => number }).f16round ?? roundToF16;

/** All numbers of 16 bits, by their bits: a table, because kernels convert one for each weight or cached value. */
const halves = Float32Array.from({ length: 65_536 }, (_, bits) => numberFromF16(bits));
const halfOf = (bits: number): number => halves[bits] as number;

/** A buffer binding, or a variable of the workgroup. */
export class EmulatedMemory {
  readonly sizeBytes: number;
  readonly u32: Uint32Array;
  readonly i32: Int32Array;
  readonly f32: Float32Array;
  readonly #halves: Uint16Array;

  /** The length must be a multiple of 4. */
  constructor({ buffer, byteOffset, byteLength }: ArrayBufferView) {
    this.sizeBytes = byteLength;
    this.u32 = new Uint32Array(buffer, byteOffset, byteLength / 4);
    this.i32 = new Int32Array(buffer, byteOffset, byteLength / 4);
    this.f32 = new Float32Array(buffer, byteOffset, byteLength / 4);
    this.#halves = new Uint16Array(buffer, byteOffset, byteLength / 2);
  }

  getF16(address: number): number {
    return halfOf(this.#halves[address >>> 1] as number);
  }

  setF16(address: number, value: number): void {
    this.#halves[address >>> 1] = f16FromNumber(value);
  }
}

/** 16 columns of 16 numbers and the like; the invocations of a subgroup share one. Immutable. */
export interface MatrixValue {
  readonly columns: number;
  readonly rows: number;
  /** Column by column. */
  readonly values: Float64Array;
}

const scratch = new DataView(new ArrayBuffer(16));
const clampByte = (low: number, high: number) => (value: number) => Math.min(Math.max(value, low), high);

/** Words of 2 or 4 lanes, from the lowest bits. */
const pack = (bits: number, values: readonly number[]): number =>
  values.reduce((word, value, i) => word | ((value & (2 ** bits - 1)) << (bits * i)), 0) >>> 0;
const unpack = (bits: number, word: number): number[] =>
  Array.from({ length: 32 / bits }, (_, i) => (word >>> (bits * i)) & (2 ** bits - 1));
const signed = (bits: number, values: readonly number[]): number[] =>
  values.map((value) => (value << (32 - bits)) >> (32 - bits));
const normalized = (scale: number, low: number, values: readonly number[]): number[] =>
  values.map((value) => Math.floor(0.5 + scale * Math.min(Math.max(value, low), 1)));

type Composite = unknown[];
const clone = (value: unknown): unknown =>
  Array.isArray(value) ? (Array.isArray(value[0]) ? value.map(clone) : value.slice()) : value;

const roundEven = (value: number): number => {
  const below = Math.floor(value);
  const rest = value - below;
  if (!Number.isFinite(value) || rest === 0) return value;
  if (rest !== 0.5) return Math.round(value);
  return below % 2 === 0 ? below : below + 1;
};
const firstTrailing = (value: number): number => (value === 0 ? -1 : 31 - Math.clz32(value & -value));
const reversed = (value: number): number => {
  let result = 0;
  for (let i = 0; i < 32; i++) result |= ((value >>> i) & 1) << (31 - i);
  return result;
};
const ones = (value: number): number => {
  let count = 0;
  for (let rest = value >>> 0; rest !== 0; rest &= rest - 1) count++;
  return count;
};
const mask = (count: number): number => (count >= 32 ? 0xffffffff : 2 ** count - 1);
const insert = (value: number, bits: number, offset: number, count: number): number => {
  const at = Math.min(offset, 32);
  const wide = (mask(Math.min(count, 32 - at)) << at) >>> 0;
  return at === 32 ? value : (value & ~wide) | ((bits << at) & wide);
};
const length = (a: readonly number[], b?: readonly number[]): number =>
  Math.sqrt(a.reduce((sum, value, i) => sum + (value - (b?.[i] ?? 0)) ** 2, 0));

/** A pointer to memory: of an atomic, or of an array of a subgroup matrix. */
export interface MemoryPointer {
  readonly memory: EmulatedMemory;
  /** In bytes. */
  readonly address: number;
}

type Word = 'u32' | 'i32';

/** Replaces a word by `update` of it and the argument; returns the old one. */
const atomic =
  (update: (old: number, given: number) => number) =>
  ({ memory, address }: MemoryPointer, element: Word, given: number): number => {
    const words = memory[element];
    const old = words[address >>> 2] as number;
    words[address >>> 2] = update(old, given);
    return old;
  };

/** Elements of the array at `address` in `memory`. */
const lengthOf = (memory: EmulatedMemory, address: number, strideBytes: number): number =>
  Math.floor((memory.sizeBytes - address) / strideBytes);

/** Sum of products in double precision, rounded once. */
const matrixByVector = (
  round: (value: number) => number,
  matrix: readonly (readonly number[])[],
  factors: readonly number[],
): number[] =>
  (matrix[0] ?? []).map((_, row) =>
    round(matrix.reduce((sum, column, c) => sum + (column[row] as number) * (factors[c] as number), 0)),
  );

export type KernelRuntime = typeof kernelRuntime;

export const kernelRuntime = {
  lengthOf,
  lengthAt: ({ memory, address }: MemoryPointer, strideBytes: number) =>
    lengthOf(memory, address, strideBytes),
  matrixByVector,
  vectorByMatrix: (
    round: (value: number) => number,
    factors: readonly number[],
    matrix: readonly (readonly number[])[],
  ) =>
    matrix.map((column) =>
      round(column.reduce((sum, value, row) => sum + value * (factors[row] as number), 0)),
    ),

  atomicLoad: atomic((old) => old),
  atomicStore: atomic((_, given) => given),
  atomicAdd: atomic((old, given) => old + given),
  atomicSub: atomic((old, given) => old - given),
  atomicMax: atomic(Math.max),
  atomicMin: atomic(Math.min),
  atomicAnd: atomic((old, given) => old & given),
  atomicOr: atomic((old, given) => old | given),
  atomicXor: atomic((old, given) => old ^ given),
  atomicExchange: atomic((_, given) => given),
  atomicCompareExchangeWeak: (pointer: MemoryPointer, element: Word, expected: number, given: number) => {
    const old = pointer.memory[element][pointer.address >>> 2] as number;
    if (old === expected) pointer.memory[element][pointer.address >>> 2] = given;
    return [old, old === expected];
  },

  clone,
  select: (no: unknown, yes: unknown, condition: boolean) => (condition ? yes : no),
  repeat: (count: number, value: (index: number) => unknown): Composite =>
    Array.from({ length: count }, (_, i) => value(i)),
  transpose: (matrix: readonly number[][]): number[][] =>
    (matrix[0] ?? []).map((_, row) => matrix.map((column) => column[row] as number)),
  zeroMatrix: (columns: number, rows: number): MatrixValue => ({
    columns,
    rows,
    values: new Float64Array(columns * rows),
  }),

  min: (a: number, b: number) => (b < a ? b : a),
  max: (a: number, b: number) => (b > a ? b : a),
  roundEven,
  smoothstep: (low: number, high: number, x: number) => {
    const t = Math.min(Math.max((x - low) / (high - low), 0), 1);
    return t * t * (3 - 2 * t);
  },
  length: (a: number | readonly number[]) => (typeof a === 'number' ? Math.abs(a) : length(a)),
  distance: (a: number | readonly number[], b: number | readonly number[]) =>
    typeof a === 'number' || typeof b === 'number' ? Math.abs(Number(a) - Number(b)) : length(a, b),
  normalize: (a: readonly number[]) => a.map((value) => value / length(a)),

  divide_u32: (a: number, b: number) => (b === 0 ? a : (a / b) >>> 0),
  divide_i32: (a: number, b: number) => (b === 0 ? a : (a / b) | 0),
  remainder_u32: (a: number, b: number) => (b === 0 ? 0 : a % b),
  remainder_i32: (a: number, b: number) => (b === 0 ? 0 : (a % b) | 0),
  truncate_u32: (value: number) => (value > 0 ? (value >= 4294967295 ? 4294967295 : Math.floor(value)) : 0),
  truncate_i32: (value: number) => {
    if (Number.isNaN(value)) return 0;
    return Math.min(Math.max(Math.trunc(value), -2147483648), 2147483647) | 0;
  },
  countOneBits_u32: ones,
  countOneBits_i32: ones,
  countTrailingZeros_u32: (value: number) => (value === 0 ? 32 : firstTrailing(value)),
  countTrailingZeros_i32: (value: number) => (value === 0 ? 32 : firstTrailing(value)),
  firstTrailingBit_u32: (value: number) => firstTrailing(value) >>> 0,
  firstTrailingBit_i32: firstTrailing,
  firstLeadingBit_u32: (value: number) => (31 - Math.clz32(value)) >>> 0,
  firstLeadingBit_i32: (value: number) => 31 - Math.clz32(value < 0 ? ~value : value),
  reverseBits_u32: (value: number) => reversed(value) >>> 0,
  reverseBits_i32: reversed,
  extractBits_u32: (value: number, offset: number, count: number) => {
    const at = Math.min(offset, 32);
    return at === 32 ? 0 : ((value >>> at) & mask(Math.min(count, 32 - at))) >>> 0;
  },
  extractBits_i32: (value: number, offset: number, count: number) => {
    const at = Math.min(offset, 32);
    const wide = Math.min(count, 32 - at);
    return wide === 0 ? 0 : (value << (32 - at - wide)) >> (32 - wide);
  },
  insertBits_u32: (value: number, bits: number, offset: number, count: number) =>
    insert(value, bits, offset, count) >>> 0,
  insertBits_i32: (value: number, bits: number, offset: number, count: number) =>
    insert(value, bits, offset, count) | 0,

  pack2x16float: (values: readonly number[]) => pack(16, values.map(f16FromNumber)),
  unpack2x16float: (word: number) => [halfOf(word & 0xffff), halfOf(word >>> 16)],
  pack2x16snorm: (values: readonly number[]) => pack(16, normalized(32767, -1, values)),
  pack2x16unorm: (values: readonly number[]) => pack(16, normalized(65535, 0, values)),
  pack4x8snorm: (values: readonly number[]) => pack(8, normalized(127, -1, values)),
  pack4x8unorm: (values: readonly number[]) => pack(8, normalized(255, 0, values)),
  unpack2x16snorm: (word: number) =>
    signed(16, unpack(16, word)).map((value) => Math.fround(Math.max(value / 32767, -1))),
  unpack2x16unorm: (word: number) => unpack(16, word).map((value) => Math.fround(value / 65535)),
  unpack4x8snorm: (word: number) =>
    signed(8, unpack(8, word)).map((value) => Math.fround(Math.max(value / 127, -1))),
  unpack4x8unorm: (word: number) => unpack(8, word).map((value) => Math.fround(value / 255)),
  pack4xI8: (values: readonly number[]) => pack(8, values),
  pack4xU8: (values: readonly number[]) => pack(8, values),
  pack4xI8Clamp: (values: readonly number[]) => pack(8, values.map(clampByte(-128, 127))),
  pack4xU8Clamp: (values: readonly number[]) => pack(8, values.map(clampByte(0, 255))),
  unpack4xI8: (word: number) => [(word << 24) >> 24, (word << 16) >> 24, (word << 8) >> 24, word >> 24],
  unpack4xU8: (word: number) => [word & 255, (word >>> 8) & 255, (word >>> 16) & 255, word >>> 24],
  dot4I8Packed: (a: number, b: number) => {
    let sum = 0;
    for (let shift = 0; shift < 32; shift += 8)
      sum += ((a << (24 - shift)) >> 24) * ((b << (24 - shift)) >> 24);
    return sum | 0;
  },
  dot4U8Packed: (a: number, b: number) => {
    let sum = 0;
    for (let shift = 0; shift < 32; shift += 8) sum += ((a >>> shift) & 255) * ((b >>> shift) & 255);
    return sum >>> 0;
  },

  /** Reinterprets the bits of one or more numbers. */
  bitcast: (from: string, to: string, values: readonly number[]): number[] => {
    let at = 0;
    for (const value of values) {
      if (from === 'f32') scratch.setFloat32(at, value, true);
      else if (from === 'f16') scratch.setUint16(at, f16FromNumber(value), true);
      else scratch.setUint32(at, value, true);
      at += from === 'f16' ? 2 : 4;
    }
    const result: number[] = [];
    for (let i = 0; i < at; i += to === 'f16' ? 2 : 4) {
      if (to === 'f32') result.push(scratch.getFloat32(i, true));
      else if (to === 'f16') result.push(numberFromF16(scratch.getUint16(i, true)));
      else if (to === 'i32') result.push(scratch.getInt32(i, true));
      else result.push(scratch.getUint32(i, true));
    }
    return result;
  },
};
