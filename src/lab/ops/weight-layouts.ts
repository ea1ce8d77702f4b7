/** GPU layouts of the weight formats, to decode and to generate them. `wgsl/lab/lib/weights.wgsl` documents them. */
import { bf16FromNumber } from '../../../kernels/reference/index.ts';

const { fround } = Math;

/** Typed views of the same memory. */
export const viewsOf = (quants: Uint32Array<ArrayBuffer>, scales: Uint32Array<ArrayBuffer>) => ({
  words: quants,
  bytes: new Int8Array(quants.buffer, quants.byteOffset, quants.byteLength),
  shorts: new Uint16Array(quants.buffer, quants.byteOffset, quants.length * 2),
  halves: new Float16Array(quants.buffer, quants.byteOffset, quants.length * 2),
  floats: new Float32Array(quants.buffer, quants.byteOffset, quants.length),
  scales: {
    words: scales,
    bytes: new Int8Array(scales.buffer, scales.byteOffset, scales.byteLength),
    halves: new Float16Array(scales.buffer, scales.byteOffset, scales.length * 2),
    floats: new Float32Array(scales.buffer, scales.byteOffset, scales.length),
  },
});
type Views = ReturnType<typeof viewsOf>;

/** A block of the matrix, and its position in its row. */
interface BlockPosition {
  readonly block: number;
  readonly row: number;
  readonly b: number;
  readonly blocks: number;
}

/** Decodes the 32 weights of a block to `out`, with the rounding of the format's decoder. */
type DecodeBlock = (views: Views, place: BlockPosition, out: Float32Array) => void;

/** Formats that store weights as numbers. `plain` encodes an array of numbers. */
interface PlainLayout {
  readonly plain: (pool: Float32Array<ArrayBuffer>) => Uint16Array | Uint32Array;
  readonly read: DecodeBlock;
}

/** Formats that store weights as codes: any bits are valid quants. */
interface CodedLayout {
  /** Root mean square of the weights when all scales are 1. */
  readonly magnitude: number;
  /** Replaces random bits with valid scales from `scale`. Sub-scales and high bits of codes may stay random. */
  readonly writeScales: (scales: Uint32Array<ArrayBuffer>, scale: () => number) => void;
  readonly read: DecodeBlock;
}

export type Layout = PlainLayout | CodedLayout;

type Words = Uint32Array<ArrayBuffer>;
const halvesOf = (words: Words) => new Float16Array(words.buffer, words.byteOffset, words.length * 2);

/** Layouts with a scale in every f16. */
const scaleInEveryHalf = (words: Words, scale: () => number): void => {
  const halves = halvesOf(words);
  for (let i = 0; i < halves.length; i++) halves[i] = scale();
};

/** Layouts with a scale, and `ratio` times a scale, in one word of every `stride`, starting at word `offset`. */
const scalePairs =
  (stride: number, offset: number, ratio: number) =>
  (words: Words, scale: () => number): void => {
    const halves = halvesOf(words);
    for (let at = 2 * offset; at < halves.length; at += 2 * stride) {
      halves[at] = scale();
      halves[at + 1] = ratio * scale();
    }
  };

/** 4-bit code of column c, from a block of 16 bytes. */
const nibble = ({ bytes }: Views, block: number, c: number): number =>
  ((bytes[16 * block + (c & 15)] as number) >> (c & 16 ? 4 : 0)) & 15;

/** The bit of column c in a word; the two bits of column c, with 16 columns in each word. */
const bitOfColumn = (word: number, c: number): number => (word >>> (8 * (c & 3) + (c >> 2))) & 1;
const twoBitsOfColumn = (words: Uint32Array, at: number, c: number): number =>
  ((words[at + (c >> 4)] as number) >>> (8 * (c & 3) + 2 * ((c >> 2) & 3))) & 3;

/** Computes the 32 columns of a block. */
const fillColumns = (out: Float32Array, weight: (c: number) => number): void => {
  for (let c = 0; c < 32; c++) out[c] = weight(c);
};

/** Q4_K and Q5_K, with groups of `stride` words. @returns the factor of the block's codes, and what is subtracted */
const scaleAndMinimumOf = (
  { scales }: Views,
  block: number,
  stride: number,
): [scale: number, minimum: number] => {
  const group = (block >> 3) * stride;
  const at = 4 * (group + 1) + 2 * (block & 7);
  return [
    fround((scales.halves[2 * group] as number) * ((scales.bytes[at] as number) & 255)),
    fround((scales.halves[2 * group + 1] as number) * ((scales.bytes[at + 1] as number) & 255)),
  ];
};

/** Q3_K and Q6_K: scale of column c. Each signed byte covers 16 columns. */
const scaleOf = ({ scales }: Views, block: number, c: number, stride: number): number => {
  const group = (block >> 3) * stride;
  const factor = scales.bytes[4 * (group + 1) + 2 * (block & 7) + (c >> 4)] as number;
  return fround((scales.halves[2 * group] as number) * factor);
};

/** Values of the 4-bit codes in the IQ4 formats, and twice the values in MXFP4. */
const iq4Values = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113] as const;
const mxfp4Values = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12] as const;

export const layouts: Readonly<Record<string, Layout>> = {
  f32: {
    plain: (pool) => new Uint32Array(pool.buffer),
    read: ({ floats }, { block }, out) => out.set(floats.subarray(32 * block, 32 * block + 32)),
  },
  f16: {
    plain: (pool) => new Uint16Array(Float16Array.from(pool).buffer),
    read: ({ halves }, { block }, out) => out.set(halves.subarray(32 * block, 32 * block + 32)),
  },
  bf16: {
    plain: (pool) => Uint16Array.from(pool, bf16FromNumber),
    read({ shorts }, { block }, out) {
      const bits = new Uint32Array(out.buffer, out.byteOffset, 32);
      for (let c = 0; c < 32; c++) bits[c] = (shorts[32 * block + c] as number) << 16;
    },
  },
  q8_0: {
    magnitude: 77,
    writeScales: scaleInEveryHalf,
    read: ({ bytes, scales }, { block }, out) =>
      fillColumns(out, (c) => (bytes[32 * block + c] as number) * (scales.halves[block] as number)),
  },
  q4_0: {
    magnitude: 4.8,
    writeScales: scaleInEveryHalf,
    read: (views, { block }, out) =>
      fillColumns(out, (c) => (nibble(views, block, c) - 8) * (views.scales.halves[block] as number)),
  },
  q4_1: {
    magnitude: 5.65,
    writeScales: scalePairs(1, 0, -7.5),
    read(views, { block }, out) {
      const scale = views.scales.halves[2 * block] as number;
      const minimum = views.scales.halves[2 * block + 1] as number;
      fillColumns(out, (c) => fround(nibble(views, block, c) * scale) + minimum);
    },
  },
  q5_0: {
    magnitude: 9.6,
    writeScales: scalePairs(3, 2, 1),
    read(views, { block }, out) {
      const group = (block >> 1) * 3;
      const fifth = views.scales.words[group + (block & 1)] as number;
      const scale = views.scales.halves[2 * group + 4 + (block & 1)] as number;
      fillColumns(out, (c) => ((nibble(views, block, c) | (bitOfColumn(fifth, c) << 4)) - 16) * scale);
    },
  },
  q5_1: {
    magnitude: 11.5,
    writeScales: scalePairs(2, 1, -15.5),
    read(views, { block }, out) {
      const fifth = views.scales.words[2 * block] as number;
      const scale = views.scales.halves[4 * block + 2] as number;
      const minimum = views.scales.halves[4 * block + 3] as number;
      fillColumns(
        out,
        (c) => fround((nibble(views, block, c) | (bitOfColumn(fifth, c) << 4)) * scale) + minimum,
      );
    },
  },
  q2_k: {
    magnitude: 15,
    writeScales: scalePairs(5, 0, 1.5),
    read(views, { block }, out) {
      const { scales, words } = views;
      const group = (block >> 3) * 5;
      fillColumns(out, (c) => {
        const pair = scales.bytes[4 * (group + 1) + 2 * (block & 7) + (c >> 4)] as number;
        const scale = fround((scales.halves[2 * group] as number) * (pair & 15));
        const minimum = fround((scales.halves[2 * group + 1] as number) * ((pair >> 4) & 15));
        return fround(scale * twoBitsOfColumn(words, 2 * block, c)) - minimum;
      });
    },
  },
  q3_k: {
    magnitude: 45,
    writeScales: signedSixBitSubScales(13, 4),
    read(views, { block }, out) {
      const third = views.scales.words[(block >> 3) * 13 + 5 + (block & 7)] as number;
      fillColumns(out, (c) => {
        const code = twoBitsOfColumn(views.words, 2 * block, c) | (bitOfColumn(third, c) << 2);
        return scaleOf(views, block, c, 13) * (code - 4);
      });
    },
  },
  q4_k: {
    magnitude: 290,
    writeScales: sixBitSubScales(5, 7.5),
    read(views, { block }, out) {
      const [scale, minimum] = scaleAndMinimumOf(views, block, 5);
      fillColumns(out, (c) => fround(scale * nibble(views, block, c)) - minimum);
    },
  },
  q5_k: {
    magnitude: 570,
    writeScales: sixBitSubScales(13, 15.5),
    read(views, { block }, out) {
      const fifth = views.scales.words[(block >> 3) * 13 + 5 + (block & 7)] as number;
      const [scale, minimum] = scaleAndMinimumOf(views, block, 13);
      fillColumns(
        out,
        (c) => fround(scale * (nibble(views, block, c) | (bitOfColumn(fifth, c) << 4))) - minimum,
      );
    },
  },
  q6_k: {
    magnitude: 1390,
    writeScales: scalePairs(21, 0, 1),
    read(views, { block }, out) {
      const upper = (block >> 3) * 21 + 5 + 2 * (block & 7);
      fillColumns(out, (c) => {
        const code = nibble(views, block, c) | (twoBitsOfColumn(views.scales.words, upper, c) << 4);
        return scaleOf(views, block, c, 21) * (code - 32);
      });
    },
  },
  iq4_nl: {
    magnitude: 70,
    writeScales: scaleInEveryHalf,
    read: (views, { block }, out) =>
      fillColumns(
        out,
        (c) => (iq4Values[nibble(views, block, c)] as number) * (views.scales.halves[block] as number),
      ),
  },
  iq4_xs: {
    magnitude: 1290,
    writeScales: signedSixBitSubScales(3, 2),
    read(views, { block }, out) {
      const group = (block >> 3) * 3;
      const factor = views.scales.bytes[4 * (group + 1) + (block & 7)] as number;
      const scale = fround((views.scales.halves[2 * group] as number) * factor);
      fillColumns(out, (c) => (iq4Values[nibble(views, block, c)] as number) * scale);
    },
  },
  mxfp4: {
    magnitude: 3,
    writeScales(words, scale) {
      const exponents = new Uint8Array(words.buffer, words.byteOffset, words.byteLength);
      for (let i = 0; i < exponents.length; i++) exponents[i] = 127 + Math.round(Math.log2(scale()));
    },
    read(views, { block }, out) {
      const scale = 2 ** (((views.scales.bytes[block] as number) & 255) - 128);
      fillColumns(out, (c) => (mxfp4Values[nibble(views, block, c)] as number) * scale);
    },
  },
  mlc_q4f32: {
    magnitude: 4.8,
    writeScales(words, scale) {
      const floats = new Float32Array(words.buffer, words.byteOffset, words.length);
      for (let i = 0; i < floats.length; i++) floats[i] = scale();
    },
    read: (views, { block }, out) =>
      fillColumns(out, (c) => (nibble(views, block, c) - 7) * (views.scales.floats[block] as number)),
  },
  mlc_q3f16: {
    magnitude: 2.4,
    writeScales(words, scale) {
      scalePairs(7, 0, 1)(words, scale);
      scalePairs(7, 1, 1)(words, scale);
    },
    read(views, { block, row, b, blocks }, out) {
      const group = (row * Math.ceil(blocks / 5) + Math.floor(b / 5)) * 7;
      const third = views.scales.words[group + 2 + (b % 5)] as number;
      fillColumns(out, (c) => {
        const scale = views.scales.halves[2 * group + Math.floor((32 * (b % 5) + c) / 40)] as number;
        return ((twoBitsOfColumn(views.words, 2 * block, c) | (bitOfColumn(third, c) << 2)) - 3) * scale;
      });
    },
  },
};

/** Q4_K and Q5_K: sub-scales are bytes from 0 to 63. */
function sixBitSubScales(stride: number, ratio: number) {
  return (words: Words, scale: () => number): void => {
    scalePairs(stride, 0, ratio)(words, scale);
    for (let group = 0; group < words.length; group += stride) {
      for (let at = group + 1; at < group + 5; at++) words[at] = (words[at] as number) & 0x3f3f3f3f;
    }
  };
}

/** Q3_K and IQ4_XS: `count` words of sub-scales from -32 to 31 follow the first word of a group. */
function signedSixBitSubScales(stride: number, count: number) {
  return (words: Words, scale: () => number): void => {
    scalePairs(stride, 0, 1)(words, scale);
    const bytes = new Int8Array(words.buffer, words.byteOffset, words.byteLength);
    for (let group = 0; group < words.length; group += stride) {
      const first = 4 * (group + 1);
      for (let at = first; at < first + 4 * count; at++) bytes[at] = (bytes[at] as number) >> 2;
    }
  };
}
