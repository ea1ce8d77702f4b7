/** Weights of any type as random bits with moderate scales: values no encoder writes, generated much faster. */
import { quantizers } from '../../kernels/quantize/index.ts';
import { type EncodableType, f16FromNumber, quantize } from '../../kernels/reference/index.ts';
import { type TensorType, tensorTypes } from '../../src/engine/formats/model-file.ts';

export const isEncodable = (type: TensorType): type is EncodableType =>
  type in quantizers || tensorTypes[type].blockElements === 1;

/** The next number of columns that rows of the type can have. */
export const wholeColumns = (type: TensorType, columns: number): number =>
  tensorTypes[type].blockElements === 256 ? Math.ceil(columns / 256) * 256 : columns;

interface Extent {
  readonly rows: number;
  readonly columns: number;
}

/**
 * @param scale about what the weights are in the mean square
 * @param random 32 bits a call
 * @returns the rows as a file has them
 */
export function randomBlocks(
  type: TensorType,
  { rows, columns }: Extent,
  scale: number,
  random: () => number,
): Uint8Array<ArrayBuffer> {
  const { blockElements, blockBytes } = tensorTypes[type];
  const bytes = randomBytes(rows * Math.ceil(columns / blockElements) * blockBytes, random);
  if (type === 'F32' || type === 'F16' || type === 'BF16') fixExponents(type, bytes, scale);
  else {
    const view = new DataView(bytes.buffer);
    for (let at = 0; at < bytes.length; at += blockBytes) scaleWriters[type](view, at, scale);
  }
  return bytes;
}

function randomBytes(count: number, random: () => number): Uint8Array<ArrayBuffer> {
  const words = new Uint32Array(Math.ceil(count / 4));
  for (let i = 0; i < words.length; i++) words[i] = random();
  return new Uint8Array(words.buffer, 0, count);
}

/** Values of either sign between `scale` (rounded to a power of 2) and its double. */
function fixExponents(type: 'F32' | 'F16' | 'BF16', bytes: Uint8Array<ArrayBuffer>, scale: number): void {
  const exponent = (bias: number) => Math.max(1, Math.floor(Math.log2(scale)) + bias);
  if (type === 'F32') {
    const words = new Uint32Array(bytes.buffer, 0, bytes.length / 4);
    for (let i = 0; i < words.length; i++)
      words[i] = ((words[i] as number) & 0x807fffff) | (exponent(127) << 23);
    return;
  }
  const [keep, set] = type === 'F16' ? [0x83ff, exponent(15) << 10] : [0x807f, exponent(127) << 7];
  const halves = new Uint16Array(bytes.buffer, 0, bytes.length / 2);
  for (let i = 0; i < halves.length; i++) halves[i] = ((halves[i] as number) & keep) | set;
}

const setHalf = (view: DataView, at: number, value: number): void =>
  view.setUint16(at, f16FromNumber(value), true);

/** Writes a scale at `at + offset` that gives codes the requested size; with `minimum`, a half after it. */
const half =
  (offset: number, magnitude: number, minimum?: number) =>
  (view: DataView, at: number, scale: number): void => {
    setHalf(view, at + offset, scale / magnitude);
    if (minimum !== undefined) setHalf(view, at + offset + 2, (scale / magnitude) * minimum);
  };

/**
 * The same when all columns of a block share one scale: blocks differ by up to a factor of three, so that misplaced
 * ones show.
 */
const unlikeHalf =
  (offset: number, magnitude: number) =>
  (view: DataView, at: number, scale: number): void =>
    setHalf(view, at + offset, (scale / magnitude) * (0.5 + view.getUint8(at + offset) / 255));

/** As different, by powers of two. */
const unlikeExponent =
  (offset: number, magnitude: number) =>
  (view: DataView, at: number, scale: number): void => {
    const more = (view.getUint8(at + offset) % 3) - 1;
    view.setUint8(at + offset, 127 + more + Math.round(Math.log2(scale / magnitude)));
  };

/** Only writes the scales: all other bits of a block are codes. Sizes assume uniformly distributed codes. */
const scaleWriters: Readonly<
  Record<Exclude<TensorType, 'F32' | 'F16' | 'BF16'>, (view: DataView, at: number, scale: number) => void>
> = {
  Q8_0: half(0, 74),
  Q4_0: half(0, 4.6),
  Q4_1: half(0, 4.6, -7.5),
  Q5_0: half(0, 9.2),
  Q5_1: half(0, 9.2, -15.5),
  Q2_K: half(80, 14, 1.5),
  Q3_K: half(108, 43),
  Q4_K: half(0, 270, 7.5),
  Q5_K: half(0, 530, 15.5),
  Q6_K: half(208, 1340),
  IQ4_NL: unlikeHalf(0, 67),
  IQ4_XS: half(0, 1250),
  MXFP4: unlikeExponent(0, 3.9),
  MLC_Q4F32: (view, at, scale) => view.setFloat32(at, scale / 4.6, true),
  MLC_Q3F16: half(0, 2.3),
};

/** Rows of values in [-1.7, 1.7] times `scale` where there is an encoder, else random blocks. @param next in [0, 1) */
export function sampleRows(
  type: TensorType,
  extent: Extent,
  next: () => number,
  scale = 1,
): Uint8Array<ArrayBuffer> {
  if (!isEncodable(type)) return randomBlocks(type, extent, scale, () => next() * 2 ** 32);
  const length = extent.rows * extent.columns;
  return quantize(
    type,
    Float32Array.from({ length }, () => (next() * 2 - 1) * 1.7 * scale),
  );
}
