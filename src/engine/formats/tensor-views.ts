import type { TensorView } from '../graph/graph.ts';
import { type ModelFile, ModelFileError, type TensorInfo } from './model-file.ts';
import { bytesOfRow, checkRows, columnsOf, rowsOf } from './rows.ts';

interface ViewedTensor {
  readonly info: TensorInfo;
  read(firstRow: number, rows: number): Promise<Uint8Array>;
}

/** Wraps a model so that it also has virtual tensors: row subsets of stored tensors, and constants. */
export function withTensorViews(
  file: ModelFile,
  views: ReadonlyMap<string, TensorView> | undefined,
): ModelFile {
  if (!views || [...views.keys()].every((name) => file.tensors.has(name))) return file;
  const viewedTensors = new Map(
    [...views].map(([name, view]) => [name, createViewedTensor(file, name, view)] as const),
  );
  return {
    ...file,
    tensors: new Map([
      ...file.tensors,
      ...[...viewedTensors].map(([name, { info }]) => [name, info] as const),
    ]),
    async readRows(tensor, firstRow, rows, into) {
      const view = viewedTensors.get(tensor.name);
      if (!view) return file.readRows(tensor, firstRow, rows, into);
      checkRows(view.info, firstRow, rows);
      const bytes = await view.read(firstRow, rows);
      if (!into) return bytes;
      into.set(bytes);
      return into.subarray(0, bytes.length);
    },
    close: () => file.close(),
  };
}

function createViewedTensor(file: ModelFile, name: string, view: TensorView): ViewedTensor {
  if (view.kind === 'values') {
    const bytes = new Uint8Array(view.values.buffer);
    const info: TensorInfo = {
      name,
      type: 'F32',
      shape: [view.values.length],
      offset: 0,
      sizeBytes: bytes.length,
    };
    return { info, read: async () => bytes };
  }
  const source = file.tensors.get(view.tensor);
  if (!source) throw new ModelFileError('bad_tensors', `${file.name}: tensor '${view.tensor}' is missing`);
  const { first, rows: rowsPerGroup, every } = view;
  const rowBytes = bytesOfRow(source);
  const count = (rowsOf(source) / every) * rowsPerGroup;
  const info = { ...source, name, shape: [count, columnsOf(source)], sizeBytes: count * rowBytes };
  return {
    info,
    async read(firstRow, rows) {
      const out = new Uint8Array(rows * rowBytes);
      for (let copiedRows = 0; copiedRows < rows; ) {
        const row = firstRow + copiedRows;
        const within = row % rowsPerGroup;
        const run = Math.min(rows - copiedRows, rowsPerGroup - within);
        const at = Math.floor(row / rowsPerGroup) * every + first + within;
        out.set(await file.readRows(source, at, run), copiedRows * rowBytes);
        copiedRows += run;
      }
      return out;
    },
  };
}
