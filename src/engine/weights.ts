import {
  blockColumns,
  quantBytes,
  scaleBytes,
  type WeightFormat,
  weightFormats,
} from '../../kernels/formats.ts';
import { decodeFloats, type FloatType, isFloatType } from './formats/float-bytes.ts';
import {
  type ModelFile,
  ModelFileError,
  type TensorInfo,
  tensorTypes,
  type TensorType,
} from './formats/model-file.ts';
import { bytesOfRow, columnsOf, rowsOf } from './formats/rows.ts';
import { viewed } from './formats/viewed.ts';
import type { BufferPool } from './gpu/buffers.ts';
import { refuseNotFinite } from './finite.ts';
import type { Graph, Unit } from './graph.ts';
import { repack, RepackMemory } from './repack.ts';

/** Rows of one matrix, or of several stacked matrices of one type, in one pair of buffers. */
export interface WeightPart {
  readonly format: string;
  readonly quants: GPUBuffer;
  readonly scales: GPUBuffer;
  /** Index in the stack of this part's first row. */
  readonly firstRow: number;
  readonly rows: number;
  readonly blocks: number;
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

export const stackKey = (names: readonly string[]): string => names.join('+');

/** Every stack of the graph: the matrices of each product together, the embedding table once. */
export function stacksOf(graph: Graph): string[][] {
  const stacks = new Map<string, string[]>();
  for (const unit of graph.units) {
    const names = matricesOf(unit);
    if (names.length > 0) stacks.set(stackKey(names), names);
  }
  return [...stacks.values()];
}

function matricesOf(unit: Unit): string[] {
  if (unit.op === 'matmul') return [...unit.weights];
  if (unit.op === 'embed' || unit.op === 'expert_matmul') return [unit.weight];
  return unit.op === 'position_embed' && unit.positions !== undefined ? [unit.positions] : [];
}

/** GPU bytes of the weights of a graph. */
export function weightBytes(file: ModelFile, graph: Graph): number {
  const whole = viewed(file, graph.views);
  let bytes = 0;
  for (const names of stacksOf(graph)) {
    for (const name of names) {
      const { type, rows, blocks } = matrixOf(whole, name);
      const format = weightFormats[type];
      bytes += quantBytes(format, { rows, blocks }) + scaleBytes(format, { rows, blocks });
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
    together: tensor.shape.length === 3 ? (tensor.shape[1] as number) : 1,
    columns,
    blocks: Math.ceil(columns / blockColumns),
  };
}

function planStack(file: ModelFile, names: readonly string[], maxBytes: number): PlannedPart[] {
  const parts: PlannedPart[] = [];
  let stackRow = 0;
  for (const name of names) {
    const { tensor, type, rows, together, blocks } = matrixOf(file, name);
    const format = weightFormats[type];
    const rowBytes = Math.max(blocks * format.quantBytesPerBlock, scaleBytes(format, { rows: 1, blocks }));
    const limit = Math.floor(maxBytes / rowBytes / together) * together;
    if (limit < 1) {
      const what = together > 1 ? 'an expert' : 'a row';
      throw new Error(`${what} of tensor ${name} is larger than a binding may be (${maxBytes} bytes)`);
    }
    for (let row = 0; row < rows; ) {
      let part = parts.at(-1);
      if (!part || part.type !== type || part.rows >= limit) {
        part = { type, sources: [], firstRow: stackRow, rows: 0, blocks };
        parts.push(part);
      }
      const take = Math.min(rows - row, limit - part.rows);
      part.sources.push({ tensor, firstRow: row, rows: take });
      part.rows += take;
      row += take;
      stackRow += take;
    }
  }
  return parts;
}

/** Bytes read from the file at once: enough to keep the disk busy, few enough to hold two chunks in memory. */
const chunkBytes = 8 << 20;

/** Bytes written to the queue before waiting for the driver, which holds them in staging memory. */
const stagedBytes = 32 << 20;

const noWords = new Uint32Array(0);

/** Streams matrices from the file to the GPU in chunks of rows. */
export class WeightLoader {
  readonly #file: ModelFile;
  readonly #pool: BufferPool;
  readonly #maxBindingBytes: number;
  /** Called with the size of each loaded chunk of a matrix. */
  readonly #onBytes: (bytes: number) => void;
  readonly #memory = new RepackMemory();
  #staged = 0;
  /** Resolves when the driver has taken everything staged up to the last submit. */
  #taken: Promise<unknown> = Promise.resolve();

  constructor(
    file: ModelFile,
    pool: BufferPool,
    options: { maxBindingBytes: number; onBytes: (bytes: number) => void },
  ) {
    this.#file = file;
    this.#pool = pool;
    this.#maxBindingBytes = options.maxBindingBytes;
    this.#onBytes = options.onBytes;
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
        quants: this.#pool.storage(`${label}.quants`, quantBytes(format, part)),
        scales: this.#pool.storage(`${label}.scales`, scaleBytes(format, part)),
        firstRow: part.firstRow,
        rows: part.rows,
        blocks: part.blocks,
      };
    });
    return { parts, planned };
  }

  /** Loads stacks, reading one chunk ahead of the one being repacked. */
  async load(stacks: Iterable<AllocatedStack>): Promise<void> {
    const chunks = [...stacks].flatMap(chunksOf);
    const most = chunks.reduce((bytes, chunk) => Math.max(bytes, chunk.bytes), 0);
    const buffers = [new Uint8Array(most), new Uint8Array(most)] as const;
    const read = (index: number): Promise<Uint8Array> | undefined => {
      const chunk = chunks[index];
      const into = buffers[index % 2 === 0 ? 0 : 1];
      const reading = chunk && this.#file.readRows(chunk.tensor, chunk.firstRow, chunk.rows, into);
      reading?.catch(() => undefined); // awaited in its turn
      return reading;
    };
    let ahead = read(0);
    try {
      for (const [index, chunk] of chunks.entries()) {
        const raw = (await ahead) as Uint8Array;
        ahead = read(index + 1);
        await this.#write(chunk, raw);
      }
    } finally {
      // The file must not be closed during a read.
      await ahead?.catch(() => undefined);
    }
  }

  /** Loads one or several 1-D tensors as consecutive f32 values. */
  async vector(names: readonly string[]): Promise<GPUBuffer> {
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

  async #write({ filling, tensor, firstRow, rows }: Chunk, raw: Uint8Array): Promise<void> {
    // Warm-up does not touch every expert or token, so all values are checked here.
    refuseNotFinite(this.#file.name, tensor, raw, firstRow);
    const { part, type } = filling;
    const { quantBytesPerBlock, scaleGroup }: WeightFormat = weightFormats[type];
    const together = scaleGroup.byRow ? part.blocks : scaleGroup.blocks;
    const { queue } = this.#pool.device;
    const columns = columnsOf(tensor);
    const phase = filling.block % together;
    const { quants, scales } = repack(type, raw, rows, columns, phase, this.#memory);
    queue.writeBuffer(part.quants, filling.block * quantBytesPerBlock, quants);
    filling.block += rows * part.blocks;
    if (scales) {
      for (const [index, word] of filling.begun.entries()) scales[index] = (scales[index] as number) | word;
      queue.writeBuffer(part.scales, filling.scalesAt, scales);
      filling.begun = filling.block % together === 0 ? noWords : scales.slice(-scaleGroup.bytes / 4);
      filling.scalesAt += scales.byteLength - filling.begun.byteLength;
    }
    this.#onBytes(raw.byteLength);
    this.#staged += raw.byteLength;
    if (this.#staged >= stagedBytes) {
      this.#staged = 0;
      queue.submit([]);
      // Waits for the previous batch only: waiting for the current one would make disk and driver idle in turn.
      await this.#taken;
      this.#taken = queue.onSubmittedWorkDone();
      this.#taken.catch(() => undefined); // awaited in its turn, or never
    }
  }
}

/** How far a part has been filled. */
interface Filling {
  readonly part: WeightPart;
  readonly type: TensorType;
  /** First block of the next chunk. */
  block: number;
  /** Byte offset in `scales` where the next chunk starts. */
  scalesAt: number;
  /** When a chunk ends within a group of scales: the words of that group, which the next chunk completes. */
  begun: Uint32Array;
}

/** Rows of a tensor that are read at once. */
interface Chunk {
  readonly filling: Filling;
  readonly tensor: TensorInfo;
  readonly firstRow: number;
  readonly rows: number;
  readonly bytes: number;
}

function chunksOf({ parts, planned }: AllocatedStack): Chunk[] {
  return parts.flatMap((part, index) => {
    const { type, sources } = planned[index] as PlannedPart;
    const filling: Filling = { part, type, block: 0, scalesAt: 0, begun: noWords };
    return sources.flatMap(({ tensor, firstRow, rows }) => {
      const rowBytes = bytesOfRow(tensor);
      const step = Math.max(1, Math.floor(chunkBytes / rowBytes));
      return Array.from({ length: Math.ceil(rows / step) }, (_, n): Chunk => {
        const count = Math.min(step, rows - n * step);
        return { filling, tensor, firstRow: firstRow + n * step, rows: count, bytes: count * rowBytes };
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
  refuseNotFinite(file.name, tensor, raw, 0);
  return valuesOf(type, raw);
}

/** Decodes the bytes of a float tensor. */
export function valuesOf(type: FloatType, raw: Uint8Array): Float32Array<ArrayBuffer> {
  const values = new Float32Array(raw.length / tensorTypes[type].blockBytes);
  decodeFloats(type, raw, values);
  return values;
}
