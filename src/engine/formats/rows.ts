/** Row arithmetic of tensors. Rows are the product of all dimensions but the innermost. A 1-D tensor is one row. */
import { type TensorInfo, tensorTypes } from './model-file.ts';

export const rowsOf = ({ shape }: Pick<TensorInfo, 'shape'>): number =>
  shape.slice(0, -1).reduce((product, extent) => product * extent, 1);

export const columnsOf = ({ shape }: Pick<TensorInfo, 'shape'>): number => shape.at(-1) ?? 1;

/** Bytes of one row in the tensor's type. Only MLC pads the last block of a row. */
export const bytesOfRow = (tensor: Pick<TensorInfo, 'type' | 'shape'>): number => {
  const { blockElements, blockBytes } = tensorTypes[tensor.type];
  return Math.ceil(columnsOf(tensor) / blockElements) * blockBytes;
};

/** @throws RangeError for rows that the tensor does not have, a programming error of the caller */
export const checkRows = (tensor: TensorInfo, firstRow: number, rows: number): void => {
  if (firstRow >= 0 && rows >= 0 && firstRow + rows <= rowsOf(tensor)) return;
  throw new RangeError(
    `rows ${firstRow}..${firstRow + rows} are outside tensor '${tensor.name}' [${tensor.shape.join(', ')}]`,
  );
};
