import { ModelFileError, type TensorType } from '../model-file.ts';
import type { MlcArray } from './records.ts';

/** How matrices are quantised: 4 or 3 bits in groups along a row, or not at all. */
export interface Quantization {
  readonly name: string;
  /** Undefined where nothing is quantised. */
  readonly group?: Group;
}

interface Group {
  /** Weights of one scale. */
  readonly columns: 32 | 40;
  /** What a group becomes, by the type of its scale. */
  readonly types: Readonly<Partial<Record<MlcArray['type'], TensorType>>>;
}

/** Words of a group in every quantisation here: 32 * 4 and 40 * 3 bits (of each word 30 are used). */
export const groupWords = 4;

const four: Group = { columns: 32, types: { F16: 'Q4_0', F32: 'MLC_Q4F32', BF16: 'MLC_Q4F32' } };
const three: Group = { columns: 40, types: { F16: 'MLC_Q3F16' } };

/** Those whose groups lie along the rows; `_0` packs along the columns. `_2` leaves embedding and head alone. */
const groups: Readonly<Record<string, Group | undefined>> = {
  q4f16_1: four,
  q4f16_2: four,
  q4bf16_1: four,
  q4f32_1: four,
  q3f16_1: three,
  q0f16: undefined,
  q0bf16: undefined,
  q0f32: undefined,
};

/** @throws ModelFileError `unsupported_type` */
export const quantizationOf = (place: string, name: unknown): Quantization => {
  if (typeof name === 'string' && Object.hasOwn(groups, name)) {
    const group = groups[name];
    return { name, ...(group ? { group } : {}) };
  }
  throw new ModelFileError(
    'unsupported_type',
    `${place}: mlc-chat-config.json: quantization '${String(name)}' is not supported ` +
      `(supported: ${Object.keys(groups).join(', ')}); get the model in one of these, for example q4f16_1`,
  );
};
