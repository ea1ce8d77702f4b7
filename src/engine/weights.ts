import { blockColumns, weightFormats } from '../../kernels/formats.ts';
import { tensorTypes, type ModelFile, type TensorInfo, type TensorType } from './formats/model-file.ts';
import type { BufferPool } from './gpu/buffers.ts';
import type { Graph } from './graph.ts';

/** Rows of one matrix, or of several of one type laid below each other, in one pair of buffers. */
export interface WeightPart {
  readonly format: string;
  readonly quants: GPUBuffer;
  readonly scales: GPUBuffer;
  /** First row of the whole stack that this part holds. */
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

/** Where a stack's rows come from, before anything is allocated. */
interface PlannedPart {
  readonly type: TensorType;
  readonly sources: { tensor: TensorInfo; firstRow: number; rows: number }[];
  readonly firstRow: number;
  rows: number;
  readonly blocks: number;
}

export const stackKey = (names: readonly string[]): string => names.join('+');

/** Every stack of the graph: matrices of a product together, the embedding table once. */
export function stacksOf(graph: Graph): string[][] {
  const stacks = new Map<string, string[]>();
  for (const unit of graph.units) {
    const names = unit.op === 'matmul' ? [...unit.weights] : unit.op === 'embed' ? [unit.weight] : undefined;
    if (names) stacks.set(stackKey(names), names);
  }
  return [...stacks.values()];
}

/** GPU bytes that the weights of a graph will take. */
export function weightBytes(file: ModelFile, graph: Graph): number {
  let bytes = 0;
  for (const names of stacksOf(graph)) {
    for (const name of names) {
      const { type, rows, blocks } = matrixOf(file, name);
      const format = weightFormats[type];
      bytes += rows * blocks * (format.quantBytesPerBlock + format.scaleBytesPerBlock);
    }
  }
  return bytes;
}

function matrixOf(file: ModelFile, name: string) {
  const tensor = file.tensors.get(name);
  if (!tensor) throw new Error(`tensor ${name} is not in the file`);
  const [rows = 0, columns = 0] = tensor.shape;
  return { tensor, type: tensor.type, rows, columns, blocks: Math.ceil(columns / blockColumns) };
}

function planStack(file: ModelFile, names: readonly string[], maxBytes: number): PlannedPart[] {
  const parts: PlannedPart[] = [];
  let stackRow = 0;
  for (const name of names) {
    const { tensor, type, rows, blocks } = matrixOf(file, name);
    const limit = Math.floor(maxBytes / (blocks * weightFormats[type].quantBytesPerBlock));
    if (limit < 1)
      throw new Error(`a row of tensor ${name} is larger than a binding may be (${maxBytes} bytes)`);
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

/** Bytes read from the file at once: enough to keep the disk busy, little enough to hold twice. */
const chunkBytes = 8 << 20;

/** Bytes handed to the driver before it must have taken them: it stages them, which would be a second copy. */
const stagedBytes = 64 << 20;

/** Streams matrices from the file to the GPU, a chunk of rows at a time. */
export class WeightLoader {
  readonly #file: ModelFile;
  readonly #pool: BufferPool;
  readonly #maxBindingBytes: number;
  readonly #onBytes: (bytes: number) => void;
  #staged = 0;

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

  /** Memory for a stack; `fill` reads it. Apart, so that a model that does not fit fails before it is read. */
  allocate(names: readonly string[]): AllocatedStack {
    const planned = planStack(this.#file, names, this.#maxBindingBytes);
    const parts = planned.map((part): WeightPart => {
      const format = weightFormats[part.type];
      const label = `${stackKey(names)}@${part.firstRow}`;
      const blockCount = part.rows * part.blocks;
      return {
        format: format.name,
        quants: this.#pool.storage(`${label}.quants`, blockCount * format.quantBytesPerBlock),
        scales: this.#pool.storage(`${label}.scales`, blockCount * format.scaleBytesPerBlock),
        firstRow: part.firstRow,
        rows: part.rows,
        blocks: part.blocks,
      };
    });
    return { parts, planned };
  }

  async fill(stack: AllocatedStack): Promise<void> {
    for (const [index, part] of stack.parts.entries()) {
      await this.#fill(part, stack.planned[index] as PlannedPart);
    }
  }

  /** One or several 1-D tensors, as f32, one after the other. */
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
    this.#onBytes(all.byteLength);
    return buffer;
  }

  async #fill(part: WeightPart, planned: PlannedPart): Promise<void> {
    const { type, blocks } = planned;
    const format = weightFormats[type];
    const queue = this.#pool.device.queue;
    let block = 0; // first block of the next chunk
    // writeBuffer takes whole words only: an odd count of scales keeps its last one for the next chunk.
    let pendingScale: number | undefined;
    for (const { tensor, firstRow, rows } of planned.sources) {
      const columns = tensor.shape[1] ?? 0;
      const rowBytes = tensor.sizeBytes / (tensor.shape[0] ?? 1);
      const step = Math.max(1, Math.floor(chunkBytes / rowBytes));
      for (let row = 0; row < rows; row += step) {
        const count = Math.min(step, rows - row);
        const raw = await this.#file.readRows(tensor, firstRow + row, count);
        const chunk = repack(type, raw, count, columns);
        queue.writeBuffer(part.quants, block * format.quantBytesPerBlock, chunk.quants);
        if (chunk.scales) {
          const whole: number[] | Uint16Array = chunk.scales;
          const lead = pendingScale === undefined ? 0 : 1;
          const total = whole.length + lead;
          const even = total - (total % 2);
          const words = new Uint16Array(even);
          if (pendingScale !== undefined) words[0] = pendingScale;
          words.set(whole.subarray(0, even - lead), lead);
          if (even > 0) queue.writeBuffer(part.scales, (block - lead) * 2, words);
          pendingScale = total % 2 === 1 ? whole[whole.length - 1] : undefined;
        }
        block += count * blocks;
        this.#onBytes(raw.byteLength);
        this.#staged += raw.byteLength;
        if (this.#staged >= stagedBytes) {
          this.#staged = 0;
          queue.submit([]);
          await queue.onSubmittedWorkDone();
        }
      }
    }
    if (pendingScale !== undefined) {
      queue.writeBuffer(part.scales, (block - 1) * 2, new Uint16Array([pendingScale, 0]));
    }
  }
}

/**
 * File encoding to GPU layout: quants of a block in whole 16-byte words, scales apart. Q4_0 keeps its nibble
 * order. Plain types whose rows are not whole blocks get zeros to the end of the last one.
 */
export function repack(
  type: TensorType,
  raw: Uint8Array,
  rows: number,
  columns: number,
): { quants: Uint8Array | Uint16Array; scales?: Uint16Array } {
  const traits = tensorTypes[type];
  if (traits.blockElements === 1) {
    const rowBytes = columns * traits.blockBytes;
    const paddedBytes = Math.ceil(columns / blockColumns) * blockColumns * traits.blockBytes;
    if (rowBytes === paddedBytes) return { quants: raw };
    const quants = new Uint8Array(rows * paddedBytes);
    for (let row = 0; row < rows; row++) {
      quants.set(raw.subarray(row * rowBytes, (row + 1) * rowBytes), row * paddedBytes);
    }
    return { quants };
  }
  // Both quantised types are an f16 scale and then the quants: halves copied by halves, because 34-byte and
  // 18-byte blocks are aligned to nothing more.
  const halves =
    raw.byteOffset % 2 === 0
      ? new Uint16Array(raw.buffer, raw.byteOffset, raw.byteLength / 2)
      : new Uint16Array(raw.slice().buffer);
  const perBlock = traits.blockBytes / 2;
  const blocks = halves.length / perBlock;
  const quants = new Uint16Array(blocks * (perBlock - 1));
  const scales = new Uint16Array(blocks);
  let read = 0;
  let write = 0;
  for (let block = 0; block < blocks; block++) {
    scales[block] = halves[read++] as number;
    for (let i = 1; i < perBlock; i++) quants[write++] = halves[read++] as number;
  }
  return { quants, scales };
}

/** A 1-D tensor (norm weights, biases, RoPE factors) as f32. */
export async function readVector(file: ModelFile, name: string): Promise<Float32Array> {
  const tensor = file.tensors.get(name);
  if (!tensor) throw new Error(`tensor ${name} is not in the file`);
  const raw = (await file.readRows(tensor, 0, 1)).slice();
  switch (tensor.type) {
    case 'F32':
      return new Float32Array(raw.buffer);
    case 'F16':
      return Float32Array.from(new Float16Array(raw.buffer));
    case 'BF16':
      return new Float32Array(Uint32Array.from(new Uint16Array(raw.buffer), (half) => half << 16).buffer);
    default:
      throw new Error(`tensor ${name} is ${tensor.type}; vectors must be F32, F16 or BF16`);
  }
}
