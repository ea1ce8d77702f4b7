import { isFloatType } from '../float-bytes.ts';
import type { ModelConfig } from '../hugging-face/config.ts';
import type { RowReader } from '../hugging-face/tensor-rows.ts';
import type { TensorType } from '../model-file.ts';
import { bytesOfRow } from '../rows.ts';
import { inputColumnsOf } from './tensor-names.ts';
import { groupWords, type Quantization } from './quantization.ts';
import type { MlcArray } from './tensor-cache.ts';
import { encodeBlocks } from './encode-blocks.ts';

/** An MLC matrix or vector: one float array, or quants and scales. */
export interface StoredMatrix {
  /** MLC's name without `.weight`, `.bias`, `.q_weight`. */
  readonly base: string;
  readonly kind: 'weight' | 'bias';
  readonly type: TensorType;
  /** One or two dimensions. */
  readonly shape: readonly number[];
  readonly read: RowReader;
}

/** @param problems receives a text for every invalid array */
export const readStoredTensors = (
  arrays: ReadonlyMap<string, MlcArray>,
  { config, quantization }: { config: ModelConfig; quantization: Quantization },
  problems: string[],
): StoredMatrix[] => {
  const stored: StoredMatrix[] = [];
  for (const array of arrays.values()) {
    const [, base = '', kind] = /^(.+)\.(weight|bias|q_weight|q_scale)$/.exec(array.name) ?? [];
    const scales = arrays.get(`${base}.q_scale`);
    if (kind === 'q_scale') {
      if (!arrays.has(`${base}.q_weight`)) problems.push(`'${array.name}' has no quants`);
      continue;
    }
    const tensor =
      kind === 'q_weight'
        ? createQuantizedMatrix(array, { base, scales, config, quantization })
        : createFloatTensor(array, base, kind === 'bias' ? 'bias' : 'weight');
    if (typeof tensor === 'string') problems.push(`'${array.name}' ${tensor}`);
    else stored.push(tensor);
  }
  return stored;
};

const createFloatTensor = (
  array: MlcArray,
  base: string,
  kind: StoredMatrix['kind'],
): StoredMatrix | string => {
  const { type, shape, source, offset } = array;
  if (base === '') return 'is neither a weight nor a bias';
  if (!isFloatType(type)) return 'holds U32 values, not floats';
  if (shape.length > 2) return `has shape [${shape.join(', ')}], neither a vector nor a matrix`;
  const rowBytes = bytesOfRow({ type, shape });
  const read: RowReader = (firstRow, rows, into) =>
    source.read(offset + firstRow * rowBytes, rows * rowBytes, into);
  return { base, kind, type, shape, read };
};

const createQuantizedMatrix = (
  quants: MlcArray,
  context: { base: string; scales: MlcArray | undefined; config: ModelConfig; quantization: Quantization },
): StoredMatrix | string => {
  const { base, scales, config, quantization } = context;
  const { group, name } = quantization;
  if (!group) return `is quantized, but the quantization is ${name}`;
  if (!scales) return 'has no scales';
  const [rows = 0, words = 0] = quants.shape;
  const columns = inputColumnsOf(base, config);
  const groups = Math.ceil(columns / group.columns);
  const expectedShape = [rows, groups * groupWords];
  if (quants.type !== 'U32' || quants.shape.length !== 2 || words !== expectedShape[1])
    return `must be [${expectedShape.join(', ')}] U32 values, got ${quants.type} [${quants.shape.join(', ')}]`;
  if (scales.shape.length !== 2 || scales.shape[0] !== rows || scales.shape[1] !== groups)
    return `must have [${rows}, ${groups}] scales, got [${scales.shape.join(', ')}]`;
  const type = group.types[scales.type];
  if (!type || scales.type === 'U32') return `has scales of type ${scales.type}, which ${name} does not use`;
  if (type !== 'MLC_Q3F16' && columns % group.columns !== 0)
    return `has rows of ${columns} weights, not a multiple of ${group.columns}`;
  const shape = [rows, columns];
  const quantBytes = words * 4;
  const scaleBytes = bytesOfRow({ type: scales.type, shape: scales.shape });
  const rowBytes = bytesOfRow({ type, shape });
  const read: RowReader = async (firstRow, count, into) => {
    const out = into ? into.subarray(0, count * rowBytes) : new Uint8Array(count * rowBytes);
    const [quantRows, scaleRows] = await Promise.all([
      quants.source.read(
        quants.offset + firstRow * quantBytes,
        count * quantBytes,
        new Uint8Array(count * quantBytes),
      ),
      scales.source.read(scales.offset + firstRow * scaleBytes, count * scaleBytes),
    ]);
    encodeBlocks(scales, { type, quants: quantRows, scales: scaleRows, out });
    return out;
  };
  return { base, kind: 'weight', type, shape, read };
};
