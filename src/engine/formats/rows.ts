/** Rows of a tensor: all but the innermost dimension counted through. A 1-D tensor is one row. */
import { type TensorInfo, tensorTypes } from './model-file.ts';

export const rowsOf = ({ shape }: Pick<TensorInfo, 'shape'>): number =>
  shape.slice(0, -1).reduce((product, extent) => product * extent, 1);

export const columnsOf = ({ shape }: Pick<TensorInfo, 'shape'>): number => shape.at(-1) ?? 1;

/** Bytes of one row in the encoding of the tensor; MLC alone fills up the last block of a row. */
export const bytesOfRow = (tensor: Pick<TensorInfo, 'type' | 'shape'>): number => {
  const { blockElements, blockBytes } = tensorTypes[tensor.type];
  return Math.ceil(columnsOf(tensor) / blockElements) * blockBytes;
};

/** Refuses rows that the tensor does not have: a mistake of the caller. */
export const checkRows = (tensor: TensorInfo, firstRow: number, rows: number): void => {
  if (firstRow >= 0 && rows >= 0 && firstRow + rows <= rowsOf(tensor)) return;
  throw new RangeError(
    `rows ${firstRow}..${firstRow + rows} leave tensor '${tensor.name}' [${tensor.shape.join(', ')}]`,
  );
};
