import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ModelFileError } from '../../src/engine/formats/model-file.ts';
import { openModelFile } from '../../src/engine/formats/open-model-file.ts';
import { filesOf, memorySource, openSource } from '../support/byte-source.ts';
import { splitGguf, splitPartName } from '../support/gguf-split-writer.ts';
import { type GgufFile, text, texts } from '../support/gguf-writer.ts';
import { modelsPath } from '../support/shared.ts';
import { rounds } from '../support/tier.ts';

const original = new Uint8Array(readFileSync(modelsPath('lathe-tiny-q8_0.gguf')));
const headerBytes = 64_160;

const smallModel: GgufFile = {
  metadata: [
    ['general.architecture', text('llama')],
    ['tokens', texts(['a', 'b'])],
  ],
  tensors: ['a', 'b', 'c', 'd'].map((name) => ({
    name,
    type: 'F32',
    shape: [2, 2],
    data: () => new Uint8Array(16),
  })),
};

/** Opens a file and allows only ModelFileError. Returns whether it opened. */
const survives = async (bytes: Uint8Array): Promise<boolean> => {
  try {
    await openSource(memorySource(bytes));
    return true;
  } catch (error) {
    if (error instanceof ModelFileError) return false;
    throw error;
  }
};

// The interesting numbers are at the start (counts) and at the end (the tensor table), so choose those more often.
const place = fc.oneof(
  fc.nat({ max: 200 }),
  fc.integer({ min: headerBytes - 4000, max: headerBytes - 1 }),
  fc.nat({ max: headerBytes - 1 }),
);
const flips = fc.array(fc.tuple(place, fc.integer({ min: 1, max: 255 })), { minLength: 1, maxLength: 8 });

describe('damaged headers', () => {
  it('random byte flips either open or are refused', async () => {
    let refused = 0;
    await fc.assert(
      fc.asyncProperty(flips, async (changes) => {
        for (const [at, mask] of changes) original[at] = (original[at] ?? 0) ^ mask;
        try {
          if (!(await survives(original))) refused += 1;
        } finally {
          for (const [at, mask] of changes) original[at] = (original[at] ?? 0) ^ mask;
        }
      }),
      { numRuns: rounds(1000, 333) },
    );
    expect(refused).toBeGreaterThan(rounds(300, 100));
    expect(await survives(original)).toBe(true);
  });

  it('files with random 64-bit numbers at random places open or are rejected, and little is read', async () => {
    const number = fc.oneof(
      fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
      fc.bigInt({ min: 0n, max: 2n ** 33n }),
    );
    await fc.assert(
      fc.asyncProperty(place, number, async (at, value) => {
        const bytes = original.slice(0, headerBytes + 8);
        new DataView(bytes.buffer).setBigUint64(at, value, true);
        const source = { ...memorySource(bytes), sizeBytes: original.length };
        let largest = 0;
        source.read = async (offset, length, into) => {
          largest = Math.max(largest, length);
          const target = into ?? new Uint8Array(length);
          target.fill(0);
          target.set(bytes.subarray(offset, offset + length));
          return target;
        };
        await openSource(source).catch((error: unknown) => {
          if (!(error instanceof ModelFileError)) throw error;
        });
        expect(largest).toBeLessThanOrEqual(4 << 20);
      }),
      { numRuns: rounds(500, 166) },
    );
  });

  it('random truncations are refused', async () => {
    await fc.assert(
      fc.asyncProperty(fc.nat({ max: original.length - 1 }), async (length) => {
        expect(await survives(original.subarray(0, length))).toBe(false);
      }),
      { numRuns: rounds(300, 100) },
    );
  });

  it('random bytes are refused', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 4096 }), fc.boolean(), async (noise, withMagic) => {
        const bytes = Uint8Array.from(withMagic ? [0x47, 0x47, 0x55, 0x46, 3, 0, 0, 0, ...noise] : noise);
        await survives(bytes);
      }),
      { numRuns: rounds(500, 166) },
    );
  });

  it('split models with random byte flips in one part open or are rejected, and every part is closed', async () => {
    const parts = splitGguf('m', smallModel, 3);
    let refused = 0;
    await fc.assert(
      fc.asyncProperty(fc.nat(2), fc.nat(2), flips, async (entry, damaged, changes) => {
        const sources = Object.entries(parts).map(([name, bytes], index) => {
          const copy = bytes.slice();
          if (index === damaged) {
            for (const [at, mask] of changes) copy[at % copy.length] = (copy[at % copy.length] ?? 0) ^ mask;
          }
          return [name, memorySource(copy, name)] as const;
        });
        try {
          await openModelFile(filesOf(Object.fromEntries(sources), splitPartName('m', entry + 1, 3)));
        } catch (error) {
          if (!(error instanceof ModelFileError)) throw error;
          refused += 1;
          for (const [, source] of sources) expect(source.closed || source.bytesRead === 0).toBe(true);
        }
      }),
      { numRuns: rounds(500, 166) },
    );
    expect(refused).toBeGreaterThan(rounds(100, 33));
  });
});
