import {
  blockColumns,
  quantSizeBytes,
  scaleSizeBytes,
  type WeightFormat,
  weightFormats,
} from '../../../kernels/formats.ts';
import { decodeFloats, type FloatType, isFloatType } from '../formats/float-bytes.ts';
import {
  type ModelFile,
  ModelFileError,
  type TensorInfo,
  tensorTypes,
  type TensorType,
} from '../formats/model-file.ts';
import { bytesOfRow, columnsOf, rowsOf } from '../formats/rows.ts';
import { withTensorViews } from '../formats/tensor-views.ts';
import type { BufferPool } from '../gpu/buffers.ts';
import { requireFinite } from './finite.ts';
import type { Graph } from '../graph/graph.ts';
import { stackKey } from '../graph/stack-key.ts';
import { matricesOf } from '../ops/index.ts';
import { repack, RepackBuffers } from './repack.ts';

/** Rows of one matrix, or of several stacked matrices of one type, in one pair of buffers. */
export interface WeightPart {
  readonly format: string;
  readonly quants: GPUBuffer;
  readonly scales: GPUBuffer;
  /** Index in the stack of this part's first row. */
  readonly firstRow: number;
  readonly rows: number;
  readonly blocks: number;
  /** Rows of the part as they are in the file, by row index in the part; filled while the part is loaded. */
  readonly samples: Map<number, RowSample>;
}

/** A row of a matrix as it is in the file. */
export interface RowSample {
  readonly type: TensorType;
  readonly columns: number;
  readonly bytes: Uint8Array;
}

export interface WeightStack {
  readonly parts: readonly WeightPart[];
}

export interface AllocatedStack extends WeightStack {
  readonly planned: readonly PlannedPart[];
}

/** Source rows of a part, before anything is allocated. */
interface PlannedPart {
  readonly type: TensorType;
  readonly sources: { tensor: TensorInfo; firstRow: number; rows: number }[];
  readonly firstRow: number;
  rows: number;
  readonly blocks: number;
}

/** Every stack of the graph: the matrices of each product together, the embedding table once. */
export function stacksOf(graph: Graph): (readonly string[])[] {
  const stacks = new Map<string, readonly string[]>();
  for (const unit of graph.units) {
    const names = matricesOf(unit);
    if (names.length > 0) stacks.set(stackKey(names), names);
  }
  return [...stacks.values()];
}

/** GPU bytes of the weights of a graph. */
export function weightBytes(file: ModelFile, graph: Graph): number {
  const viewedFile = withTensorViews(file, graph.views);
  let bytes = 0;
  for (const names of stacksOf(graph)) {
    for (const name of names) {
      const { type, rows, blocks } = matrixOf(viewedFile, name);
      const format = weightFormats[type];
      bytes += quantSizeBytes(format, { rows, blocks }) + scaleSizeBytes(format, { rows, blocks });
    }
  }
  return bytes;
}

function matrixOf(file: ModelFile, name: string) {
  const tensor = file.tensors.get(name);
  if (!tensor) throw new Error(`tensor ${name} is not in the file`);
  const columns = columnsOf(tensor);
  // Matrices of experts are stacked by rows; each must lie in one part.
  return {
    tensor,
    type: tensor.type,
    rows: rowsOf(tensor),
    rowsTogether: tensor.shape.length === 3 ? (tensor.shape[1] as number) : 1,
    columns,
    blocks: Math.ceil(columns / blockColumns),
  };
}

function planStack(file: ModelFile, names: readonly string[], maxBytes: number): PlannedPart[] {
  const parts: PlannedPart[] = [];
  let stackRow = 0;
  for (const name of names) {
    const { tensor, type, rows, rowsTogether, blocks } = matrixOf(file, name);
    const format = weightFormats[type];
    const rowBytes = Math.max(
      blocks * format.quantBytesPerBlock,
      scaleSizeBytes(format, { rows: 1, blocks }),
    );
    const limit = Math.floor(maxBytes / rowBytes / rowsTogether) * rowsTogether;
    if (limit < 1) {
      const unitName = rowsTogether > 1 ? 'an expert' : 'a row';
      throw new Error(`${unitName} of tensor ${name} is larger than a binding may be (${maxBytes} bytes)`);
    }
    for (let row = 0; row < rows; ) {
      let part = parts.at(-1);
      if (!part || part.type !== type || part.rows >= limit) {
        part = { type, sources: [], firstRow: stackRow, rows: 0, blocks };
        parts.push(part);
      }
      const count = Math.min(rows - row, limit - part.rows);
      part.sources.push({ tensor, firstRow: row, rows: count });
      part.rows += count;
      row += count;
      stackRow += count;
    }
  }
  return parts;
}

/** Bytes read from the file at once: enough to keep the disk busy, few enough to hold two chunks in memory. */
const chunkBytes = 8 << 20;

/** Bytes written to the queue before waiting for the driver, which holds them in staging memory. */
const maxStagedBytes = 32 << 20;

const noWords = new Uint32Array(0);

/** Selects rows of a matrix, in ascending order, of which a copy is kept. */
export type SampledRows = (tensor: TensorInfo) => readonly number[];

/** Streams matrices from the file to the GPU in chunks of rows. */
export class WeightLoader {
  readonly #file: ModelFile;
  readonly #pool: BufferPool;
  readonly #maxBindingBytes: number;
  /** Called with the size of each loaded chunk of a matrix. */
  readonly #onBytes: (bytes: number) => void;
  readonly #sampledRows: SampledRows | undefined;
  readonly #memory = new RepackBuffers();
  #stagedBytes = 0;
  /** Resolves when the driver has taken everything staged up to the last submit. */
  #drained: Promise<unknown> = Promise.resolve();

  constructor(
    file: ModelFile,
    pool: BufferPool,
    options: {
      maxBindingBytes: number;
      onBytes: (bytes: number) => void;
      sampledRows?: SampledRows | undefined;
    },
  ) {
    this.#file = file;
    this.#pool = pool;
    this.#maxBindingBytes = options.maxBindingBytes;
    this.#onBytes = options.onBytes;
    this.#sampledRows = options.sampledRows;
  }

  /**
   * Allocates the buffers of a stack; `load` fills them. Separate, so that a model that does not fit fails before it
   * is read.
   */
  allocate(names: readonly string[]): AllocatedStack {
    const planned = planStack(this.#file, names, this.#maxBindingBytes);
    const parts = planned.map((part): WeightPart => {
      const format = weightFormats[part.type];
      const label = `${stackKey(names)}@${part.firstRow}`;
      return {
        format: format.name,
        quants: this.#pool.storage(`${label}.quants`, quantSizeBytes(format, part)),
        scales: this.#pool.storage(`${label}.scales`, scaleSizeBytes(format, part)),
        firstRow: part.firstRow,
        rows: part.rows,
        blocks: part.blocks,
        samples: new Map(),
      };
    });
    return { parts, planned };
  }

  /** Loads stacks, reading one chunk ahead of the one being repacked. */
  async load(stacks: Iterable<AllocatedStack>): Promise<void> {
    const chunks = [...stacks].flatMap(chunksOf);
    const maxBytes = chunks.reduce((bytes, chunk) => Math.max(bytes, chunk.bytes), 0);
    const buffers = [new Uint8Array(maxBytes), new Uint8Array(maxBytes)] as const;
    const startRead = (index: number): Promise<Uint8Array> | undefined => {
      const chunk = chunks[index];
      const into = buffers[index % 2 === 0 ? 0 : 1];
      const reading = chunk && this.#file.readRows(chunk.tensor, chunk.firstRow, chunk.rows, into);
      reading?.catch(() => undefined); // awaited in its turn
      return reading;
    };
    let nextChunk = startRead(0);
    try {
      for (const [index, chunk] of chunks.entries()) {
        const raw = (await nextChunk) as Uint8Array;
        nextChunk = startRead(index + 1);
        await this.#write(chunk, raw);
      }
    } finally {
      // The file must not be closed during a read.
      await nextChunk?.catch(() => undefined);
    }
  }

  /** Loads one or several 1-D tensors as consecutive f32 values. */
  async loadVector(names: readonly string[]): Promise<GPUBuffer> {
    const values: Float32Array[] = [];
    for (const name of names) values.push(await readVector(this.#file, name));
    const all = new Float32Array(values.reduce((sum, one) => sum + one.length, 0));
    let at = 0;
    for (const one of values) {
      all.set(one, at);
      at += one.length;
    }
    const buffer = this.#pool.storage(stackKey(names), all.byteLength);
    this.#pool.device.queue.writeBuffer(buffer, 0, all);
    return buffer;
  }

  #keepSamples(
    {
      part,
      tensor,
      firstRow,
      rows,
      partRow,
    }: { part: WeightPart; tensor: TensorInfo; firstRow: number; rows: number; partRow: number },
    raw: Uint8Array,
  ): void {
    const rowBytes = bytesOfRow(tensor);
    for (const row of this.#sampledRows?.(tensor) ?? []) {
      const index = row - firstRow;
      if (index < 0 || index >= rows) continue;
      const bytes = raw.slice(index * rowBytes, (index + 1) * rowBytes);
      part.samples.set(partRow + index, { type: tensor.type, columns: columnsOf(tensor), bytes });
    }
  }

  async #write({ progress, tensor, firstRow, rows }: Chunk, raw: Uint8Array): Promise<void> {
    // Warm-up does not touch every expert or token, so all values are checked here.
    requireFinite(this.#file.name, tensor, raw, firstRow);
    const { part, type } = progress;
    const { quantBytesPerBlock, scaleGroup }: WeightFormat = weightFormats[type];
    const blocksPerGroup = scaleGroup.restartsEachRow ? part.blocks : scaleGroup.blocks;
    const { queue } = this.#pool.device;
    const columns = columnsOf(tensor);
    this.#keepSamples({ part, tensor, firstRow, rows, partRow: progress.block / part.blocks }, raw);
    const groupOffset = progress.block % blocksPerGroup;
    const { quants, scales } = repack(type, raw, rows, columns, groupOffset, this.#memory);
    queue.writeBuffer(part.quants, progress.block * quantBytesPerBlock, quants);
    progress.block += rows * part.blocks;
    if (scales) {
      for (const [index, word] of progress.partialGroup.entries())
        scales[index] = (scales[index] as number) | word;
      queue.writeBuffer(part.scales, progress.scalesAt, scales);
      progress.partialGroup =
        progress.block % blocksPerGroup === 0 ? noWords : scales.slice(-scaleGroup.bytes / 4);
      progress.scalesAt += scales.byteLength - progress.partialGroup.byteLength;
    }
    this.#onBytes(raw.byteLength);
    this.#stagedBytes += raw.byteLength;
    if (this.#stagedBytes >= maxStagedBytes) {
      this.#stagedBytes = 0;
      queue.submit([]);
      // Waits for the previous batch only: waiting for the current one would make disk and driver idle in turn.
      await this.#drained;
      this.#drained = queue.onSubmittedWorkDone();
      this.#drained.catch(() => undefined); // awaited in its turn, or never
    }
  }
}

/** How far a part has been filled. */
interface FillProgress {
  readonly part: WeightPart;
  readonly type: TensorType;
  /** First block of the next chunk. */
  block: number;
  /** Byte offset in `scales` where the next chunk starts. */
  scalesAt: number;
  /** When a chunk ends within a group of scales: the words of that group, which the next chunk completes. */
  partialGroup: Uint32Array;
}

/** Rows of a tensor that are read at once. */
interface Chunk {
  readonly progress: FillProgress;
  readonly tensor: TensorInfo;
  readonly firstRow: number;
  readonly rows: number;
  readonly bytes: number;
}

function chunksOf({ parts, planned }: AllocatedStack): Chunk[] {
  return parts.flatMap((part, index) => {
    const { type, sources } = planned[index] as PlannedPart;
    const progress: FillProgress = { part, type, block: 0, scalesAt: 0, partialGroup: noWords };
    return sources.flatMap(({ tensor, firstRow, rows }) => {
      const rowBytes = bytesOfRow(tensor);
      const step = Math.max(1, Math.floor(chunkBytes / rowBytes));
      return Array.from({ length: Math.ceil(rows / step) }, (_, n): Chunk => {
        const count = Math.min(step, rows - n * step);
        return { progress, tensor, firstRow: firstRow + n * step, rows: count, bytes: count * rowBytes };
      });
    });
  });
}

/** Number of elements of a tensor; 0 when the file has no tensor of that name. */
export const elementsOf = (file: ModelFile, name: string): number =>
  file.tensors.get(name)?.shape.reduce((product, extent) => product * extent, 1) ?? 0;

/**
 * Reads a small tensor (norm weights, biases, RoPE factors, biases of experts) as f32, row by row.
 * @throws ModelFileError `bad_tensors`; `corrupt` for an infinite or NaN value
 */
export async function readVector(file: ModelFile, name: string): Promise<Float32Array> {
  const tensor = file.tensors.get(name);
  if (!tensor) throw new ModelFileError('bad_tensors', `${file.name}: tensor '${name}' is not in the file`);
  const { type } = tensor;
  if (!isFloatType(type)) {
    throw new ModelFileError(
      'bad_tensors',
      `${file.name}: tensor '${name}' is ${type}; vectors must be F32, F16 or BF16`,
    );
  }
  const raw = await file.readRows(tensor, 0, rowsOf(tensor));
  requireFinite(file.name, tensor, raw, 0);
  return decodeVector(type, raw);
}

/** Decodes the bytes of a float tensor. */
export function decodeVector(type: FloatType, raw: Uint8Array): Float32Array<ArrayBuffer> {
  const values = new Float32Array(raw.length / tensorTypes[type].blockBytes);
  decodeFloats(type, raw, values);
  return values;
}
