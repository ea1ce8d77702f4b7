/**
 * A table that is too large for the device, from which a step reads one row for each token. It stays in the file, and
 * the rows of a step's tokens are read before the step. On the GPU they have the table's own encoding, in the order
 * of the step's tokens.
 */
import { blockColumns, quantSizeBytes, scaleSizeBytes, weightFormats } from '../../../kernels/formats.ts';
import { errorMessage } from '../../util/error-message.ts';
import { type ModelFile, ModelFileError, type TensorInfo } from '../formats/model-file.ts';
import { bytesOfRow, columnsOf, rowsOf } from '../formats/rows.ts';
import type { BufferPool } from '../gpu/buffers.ts';
import type { Graph } from '../graph/graph.ts';
import { repack, RepackBuffers } from '../loading/repack.ts';
import type { RowSample } from '../loading/weights.ts';
import { RowCache } from './row-cache.ts';
import { EngineError } from '../types.ts';

/** GPU buffers with the rows of a step: row t belongs to token t. */
export interface StreamedRowBuffers {
  /** Name of the table. */
  readonly tensor: string;
  /** Name of a format in `kernels/formats.ts`. */
  readonly format: string;
  readonly quants: GPUBuffer;
  readonly scales: GPUBuffer;
  row(id: number): RowSample | undefined;
}

export interface StreamedOptions {
  /** Most rows of a step. */
  readonly stepTokens: number;
  /** Size of the host-memory cache of rows, for later steps. */
  readonly cacheBytes?: number;
}

/** Tokens repeat within a text; this holds some thousands of rows of a large table. */
const defaultCacheBytes = 64 << 20;

/** Concurrent reads: enough to hide the latency of a disk or remote server without overloading it. */
const concurrentReads = 16;

/** GPU bytes of one row of a streamed table. */
export function streamedRowBytes(tensor: TensorInfo): number {
  const format = weightFormats[tensor.type];
  const extent = { rows: 1, blocks: Math.ceil(columnsOf(tensor) / blockColumns) };
  return quantSizeBytes(format, extent) + scaleSizeBytes(format, extent);
}

/** Name of the tensor that stays in the file; undefined when there is none. */
export function streamedTableName(graph: Graph): string | undefined {
  const unit = graph.units.find(({ op }) => op === 'per_layer_join');
  return unit?.op === 'per_layer_join' ? unit.rows : undefined;
}

/** Streamed rows for a graph; undefined when it has no such table. */
export function streamedRowsOf(
  file: ModelFile,
  graph: Graph,
  pool: BufferPool,
  options: StreamedOptions,
): StreamedRows | undefined {
  const name = streamedTableName(graph);
  if (name === undefined) return undefined;
  const tensor = file.tensors.get(name);
  if (!tensor) throw new ModelFileError('bad_tensors', `${file.name}: tensor '${name}' is not in the file`);
  return new StreamedRows(file, tensor, pool, options);
}

export class StreamedRows implements StreamedRowBuffers {
  readonly tensor: string;
  readonly format: string;
  readonly quants: GPUBuffer;
  readonly scales: GPUBuffer;
  readonly #file: ModelFile;
  readonly #info: TensorInfo;
  readonly #queue: GPUQueue;
  readonly #cache: RowCache;
  readonly #raw: Uint8Array;
  readonly #memory = new RepackBuffers();

  constructor(file: ModelFile, info: TensorInfo, pool: BufferPool, options: StreamedOptions) {
    const { stepTokens, cacheBytes = defaultCacheBytes } = options;
    const format = weightFormats[info.type];
    const extent = { rows: stepTokens, blocks: Math.ceil(columnsOf(info) / blockColumns) };
    this.tensor = info.name;
    this.format = format.name;
    this.quants = pool.storage(`${info.name}.step.quants`, quantSizeBytes(format, extent));
    this.scales = pool.storage(`${info.name}.step.scales`, scaleSizeBytes(format, extent));
    this.#file = file;
    this.#info = info;
    this.#queue = pool.device.queue;
    this.#cache = new RowCache(cacheBytes);
    this.#raw = new Uint8Array(stepTokens * bytesOfRow(info));
  }

  /**
   * Loads the rows of a step's tokens into the GPU buffers. One call at a time.
   * @param ids token ids of the step, in order
   * @throws EngineError `model_unreadable`, when all reads have ended
   */
  async load(ids: Uint32Array): Promise<void> {
    const rows = await this.#loadRows(ids);
    const bytes = bytesOfRow(this.#info);
    for (const [at, row] of rows.entries()) this.#raw.set(row, at * bytes);
    const raw = this.#raw.subarray(0, ids.length * bytes);
    const { type } = this.#info;
    const { quants, scales } = repack(type, raw, ids.length, columnsOf(this.#info), 0, this.#memory);
    this.#queue.writeBuffer(this.quants, 0, quants as Uint8Array<ArrayBuffer>);
    if (scales) this.#queue.writeBuffer(this.scales, 0, scales);
  }

  /** A row that was loaded lately, as it is in the file. */
  row(id: number): RowSample | undefined {
    const bytes = this.#cache.get(id);
    return bytes && { type: this.#info.type, columns: columnsOf(this.#info), bytes };
  }

  /** Rows in the file's encoding, one for each id; uncached rows are read concurrently. */
  async #loadRows(ids: Uint32Array): Promise<readonly Uint8Array[]> {
    const rowById = new Map<number, Uint8Array>();
    const missing: number[] = [];
    for (const id of new Set(ids)) {
      const cached = this.#cache.get(id);
      if (cached) rowById.set(id, cached);
      else missing.push(id);
    }
    let next = 0;
    let failed = false;
    const readNext = async (): Promise<void> => {
      while (next < missing.length && !failed) {
        const id = missing[next++] as number;
        try {
          rowById.set(id, await this.#readRow(id));
        } catch (error) {
          failed = true;
          throw error;
        }
      }
    };
    const readers = Array.from({ length: Math.min(concurrentReads, missing.length) }, readNext);
    // Waits for all reads even if one fails, because the file must not be closed during a read.
    const ended = await Promise.allSettled(readers);
    const failure = ended.find((one) => one.status === 'rejected');
    for (const id of missing) {
      const row = rowById.get(id);
      if (row) this.#cache.set(id, row);
    }
    if (failure) throw this.#unreadableError(failure.reason);
    return Array.from(ids, (id) => rowById.get(id) as Uint8Array);
  }

  async #readRow(id: number): Promise<Uint8Array> {
    const info = this.#info;
    if (id >= rowsOf(info)) throw new RangeError(`token ${id} has no row`);
    const row = await this.#file.readRows(info, id, 1, new Uint8Array(bytesOfRow(info)));
    if (row.length === bytesOfRow(info)) return row;
    throw new Error(`${row.length} of ${bytesOfRow(info)} bytes were read`);
  }

  #unreadableError(cause: unknown): EngineError {
    const why = errorMessage(cause);
    return new EngineError(
      'model_unreadable',
      `${this.#file.name}: rows of '${this.tensor}', which stays in the file, cannot be read: ${why}`,
      { cause },
    );
  }
}
