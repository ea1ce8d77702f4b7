import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { digestOf } from '../../src/engine/loading/digest.ts';
import { rowsOf } from '../../src/engine/formats/rows.ts';
import { hashWhileReading } from '../../src/engine/loading/hash-while-reading.ts';
import { nodePlatform } from '../../src/platform/node.ts';
import { memorySource, openSource } from '../support/byte-source.ts';
import { type GgufTensor, type GgufType, ggufBytes, text } from '../support/gguf-writer.ts';

const platform = nodePlatform();
const sizes: Readonly<Record<string, number>> = { F32: 4, F16: 2, BF16: 2 };
const tensor = (name: string, type: GgufType, shape: number[]): GgufTensor => ({
  name,
  type,
  shape,
  data: () =>
    Uint8Array.from(
      { length: shape.reduce((a, b) => a * b, sizes[type] ?? 0) },
      (_, at) => (at * 7 + name.length) & 0x3f,
    ),
});
const bytes = ggufBytes({
  metadata: [['general.architecture', text('llama')]],
  tensors: [tensor('a', 'F32', [9, 4]), tensor('bb', 'F16', [5, 8]), tensor('ccc', 'BF16', [6])],
});

describe('hashes computed while reading', () => {
  it('make the digest available without a second read', async () => {
    const source = memorySource(bytes);
    const { file, hashes } = hashWhileReading(platform, await openSource(source));
    for (const info of file.tensors.values()) {
      const rows = rowsOf(info);
      for (let row = 0; row < rows; row += 2) await file.readRows(info, row, Math.min(2, rows - row));
    }
    const before = source.bytesRead;
    const digest = await digestOf(platform, file, undefined, hashes);
    expect(source.bytesRead).toBe(before);
    expect(digest).toBe(await digestOf(platform, await openSource(memorySource(bytes))));
  });

  it('exist only for tensors read completely, in any order', async () => {
    const expected = await digestOf(platform, await openSource(memorySource(bytes)));
    const reads = fc.array(
      fc.record({ which: fc.nat(2), first: fc.nat(8), rows: fc.integer({ min: 0, max: 9 }) }),
      { maxLength: 30 },
    );
    await fc.assert(
      fc.asyncProperty(reads, async (list) => {
        const { file, hashes } = hashWhileReading(platform, await openSource(memorySource(bytes)));
        const tensors = [...file.tensors.values()];
        for (const { which, first, rows } of list) {
          const info = tensors[which];
          if (!info) continue;
          const from = Math.min(first, rowsOf(info));
          const got = await file.readRows(
            info,
            from,
            Math.min(rows, rowsOf(info) - from),
            new Uint8Array(200),
          );
          // The reader may modify the returned bytes.
          got.fill(0);
        }
        expect(await digestOf(platform, file, undefined, hashes)).toBe(expected);
      }),
    );
  });
});
