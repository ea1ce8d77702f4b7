/** Rows of a table that stays in the file: what is read, what is cached, and how failed reads are handled. */
import { describe, expect, it } from 'vitest';
import type { ModelFile, TensorInfo } from '../../src/engine/formats/model-file.ts';
import type { BufferPool } from '../../src/engine/gpu/buffers.ts';
import { repack } from '../../src/engine/loading/repack.ts';
import { RowCache } from '../../src/engine/execution/row-cache.ts';
import { StreamedRows } from '../../src/engine/execution/streamed-rows.ts';
import { EngineError } from '../../src/engine/types.ts';
import { random } from '../support/kernel-harness.ts';
import { sampleRows } from '../support/random-blocks.ts';

const columns = 96;
const tableRows = 40;
const rowBytes = (columns / 32) * 34;
const raw = sampleRows('Q8_0', { rows: tableRows, columns }, random(3), 1);
const info: TensorInfo = {
  name: 'table',
  type: 'Q8_0',
  shape: [tableRows, columns],
  offset: 0,
  sizeBytes: raw.length,
};

/** A file that counts reads and completes them on command. */
function world(options: { cacheBytes?: number; read?: (row: number) => Promise<void> } = {}) {
  const reads: number[] = [];
  let underWay = 0;
  let maxConcurrent = 0;
  const file = {
    name: 'a file',
    async readRows(tensor: TensorInfo, firstRow: number, rows: number, into: Uint8Array) {
      expect(tensor).toBe(info);
      expect(rows).toBe(1);
      reads.push(firstRow);
      maxConcurrent = Math.max(maxConcurrent, ++underWay);
      try {
        await (options.read?.(firstRow) ?? Promise.resolve());
      } finally {
        underWay -= 1;
      }
      into.set(raw.subarray(firstRow * rowBytes, (firstRow + 1) * rowBytes));
      return into;
    },
  } as unknown as ModelFile;
  const written = new Map<string, Uint8Array>();
  const queue = {
    writeBuffer: (buffer: { label: string; size: number }, at: number, data: ArrayBufferView) => {
      expect(at + data.byteLength).toBeLessThanOrEqual(buffer.size);
      written.set(buffer.label, new Uint8Array(data.buffer, data.byteOffset, data.byteLength).slice());
    },
  };
  const pool = {
    device: { queue },
    storage: (label: string, size: number) => ({ label, size }),
  } as unknown as BufferPool;
  const { cacheBytes } = options;
  const rows = new StreamedRows(file, info, pool, {
    stepTokens: 24,
    ...(cacheBytes === undefined ? {} : { cacheBytes }),
  });
  const expectRows = (ids: readonly number[]) => {
    const all = Uint8Array.from(ids.flatMap((id) => [...raw.subarray(id * rowBytes, (id + 1) * rowBytes)]));
    const { quants, scales } = repack('Q8_0', all, ids.length, columns);
    const bytes = (view: ArrayBufferView) => new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
    expect(written.get('table.step.quants')).toEqual(bytes(quants).slice());
    expect(written.get('table.step.scales')).toEqual(scales && bytes(scales).slice());
  };
  return { rows, reads, written, expectRows, underWay: () => underWay, maxConcurrent: () => maxConcurrent };
}

const fill = (rows: StreamedRows, ids: readonly number[]) => rows.load(Uint32Array.from(ids));

describe('streamed rows', () => {
  it('are exactly those of the step, each read once, in token order', async () => {
    const { rows, reads, expectRows } = world();
    const ids = [7, 3, 7, 39, 0, 3, 3];
    await fill(rows, ids);
    expectRows(ids);
    expect(reads.toSorted((a, b) => a - b)).toEqual([0, 3, 7, 39]);
    // Cached rows are not read again, and rows of the previous step are gone.
    await fill(rows, [39, 1]);
    expectRows([39, 1]);
    expect(reads.slice(4)).toEqual([1]);
  });

  it('are read concurrently, but with a limit', async () => {
    let release = () => {};
    const gate = new Promise<void>((resolve) => (release = resolve));
    const { rows, expectRows, underWay, maxConcurrent } = world({ read: () => gate });
    const ids = Array.from({ length: 24 }, (_, n) => n);
    const filled = fill(rows, ids);
    await Promise.resolve();
    expect(underWay()).toBe(16);
    release();
    await filled;
    expect(maxConcurrent()).toBe(16);
    expectRows(ids);
  });

  it('are correct for any steps, even when the cache holds only a few', async () => {
    const next = random(11);
    const { rows, reads, expectRows } = world({ cacheBytes: 5 * rowBytes });
    for (let step = 0; step < 50; step++) {
      const ids = Array.from({ length: 1 + Math.floor(next() * 24) }, () => Math.floor(next() * tableRows));
      const before = reads.length;
      await fill(rows, ids);
      expectRows(ids);
      const read = reads.slice(before);
      expect(new Set(read).size).toBe(read.length);
      expect(read.every((id) => ids.includes(id))).toBe(true);
    }
  });

  it('a failed read reports file and cause after the last read; completed rows are cached, the others are read again', async () => {
    let broken = true;
    const { rows, reads, expectRows, underWay } = world({
      read: async (row) => {
        if (row === 5 && broken) throw new Error('disk on fire');
        await new Promise((resolve) => setTimeout(resolve, row === 9 ? 20 : 0));
      },
    });
    const error = await fill(rows, [9, 5, 2]).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(EngineError);
    expect(error).toMatchObject({ code: 'model_unreadable' });
    expect(String(error)).toMatch(/a file: rows of 'table'.*disk on fire/);
    expect(underWay()).toBe(0);
    broken = false;
    const before = reads.length;
    await fill(rows, [9, 5, 2]);
    expectRows([9, 5, 2]);
    expect(reads.slice(before)).toEqual([5]);
  });

  it('a token without a row, such as one that only the GPU knows, is rejected', async () => {
    const { rows, written } = world();
    await expect(fill(rows, [1, 0xffffffff])).rejects.toThrow(/token 4294967295 has no row/);
    expect(written.size).toBe(0);
  });
});

describe('the row cache', () => {
  const row = (bytes: number) => new Uint8Array(bytes);

  it('evicts least recently used rows, and never exceeds its byte limit', () => {
    const cache = new RowCache(10);
    for (const id of [1, 2, 3]) cache.set(id, row(3));
    cache.get(1);
    cache.set(4, row(3));
    expect([1, 2, 3, 4].map((id) => cache.get(id) !== undefined)).toEqual([true, false, true, true]);
    cache.set(4, row(3));
    expect(cache.bytes).toBe(9);
    cache.set(5, row(10));
    expect(cache.bytes).toBe(10);
    cache.set(6, row(11));
    expect([cache.bytes, cache.get(6)]).toEqual([0, undefined]);
  });
});
