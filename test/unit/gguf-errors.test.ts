import { describe, expect, it } from 'vitest';
import { ModelFileError } from '../../src/engine/formats/model-file.ts';
import { memorySource, openSource } from '../support/byte-source.ts';
import { type GgufFile, ggufBytes, text, texts, u32 } from '../support/gguf-writer.ts';

const f32 = (name: string, shape: number[]) => ({
  name,
  type: 'F32' as const,
  shape,
  data: () => new Uint8Array(shape.reduce((product, extent) => product * extent, 4)),
});
const good: GgufFile = {
  metadata: [
    ['general.name', text('x')],
    ['tokens', texts(['a', 'b'])],
  ],
  tensors: [f32('w', [4, 8]), f32('v', [8])],
};

/** The code of the refusal; checks that the message names the file and that the file was closed. */
const refusal = async (bytes: Uint8Array): Promise<{ code: string; message: string }> => {
  const source = memorySource(bytes);
  const error = await openSource(source).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof ModelFileError)) throw new Error(`not a ModelFileError: ${String(error)}`);
  expect(error.message).toMatch(/^test\.gguf: /);
  expect(source.closed).toBe(true);
  return { code: error.code, message: error.message };
};
const refusalOf = (changes: Partial<GgufFile>) => refusal(ggufBytes({ ...good, ...changes }));

describe('a truncated file', () => {
  it('is rejected wherever it is cut, and accepted when complete', async () => {
    const bytes = ggufBytes(good);
    await openSource(memorySource(bytes));
    for (let length = 0; length < bytes.length; length++) {
      const { code } = await refusal(bytes.subarray(0, length));
      // With fewer than four bytes, the format cannot be detected.
      expect(code).toBe(length > 0 && length < 4 ? 'wrong_magic' : 'truncated');
    }
  });

  it.each([
    ['is empty', 0, /empty/],
    ['ends in the header', 10, /ends at byte 10, inside the header/],
    ['ends in the metadata', 50, /ends at byte 50, inside .*metadata/],
  ])('says so when it %s', async (_, length, message) => {
    expect(await refusal(ggufBytes(good).subarray(0, length))).toMatchObject({
      code: 'truncated',
      message: expect.stringMatching(message),
    });
  });

  it('is rejected with the same error as a file whose counts exceed its size', async () => {
    expect(await refusalOf({ lies: { tensorCount: 1000n } })).toMatchObject({
      code: 'truncated',
      message: expect.stringContaining('table of 1000 tensors'),
    });
    expect(await refusalOf({ lies: { metadataCount: 1000n } })).toMatchObject({
      code: 'truncated',
      message: expect.stringContaining('list of 1000 metadata entries'),
    });
  });

  it('reports counts above 2^53 in words', async () => {
    for (const lies of [{ tensorCount: 2n ** 60n }, { metadataCount: 2n ** 64n - 1n }]) {
      const { code, message } = await refusalOf({ lies });
      expect(code).toBe('corrupt');
      expect(message).toMatch(/of 2\^53 or more (tensors|metadata entries)/);
      expect(message).not.toContain('Infinity');
    }
  });

  it('names the tensor whose data is missing, and both sizes', async () => {
    const bytes = ggufBytes(good);
    const { code, message } = await refusal(bytes.subarray(0, bytes.length - 1));
    expect(code).toBe('truncated');
    expect(message).toContain(
      `the file has ${bytes.length - 1} bytes, but tensor 'v' ends at ${bytes.length}`,
    );
  });
});

describe('a file that is not GGUF', () => {
  const bytesOf = (...parts: (string | number[])[]) =>
    Uint8Array.from(
      parts.flatMap((part) => (typeof part === 'string' ? [...new TextEncoder().encode(part)] : part)),
    );
  it.each<[string, Uint8Array, RegExp]>([
    ['safetensors', bytesOf([80, 0, 0, 0, 0, 0, 0, 0], '{"__metadata__":{}}'), /safetensors/],
    [
      'a PyTorch checkpoint',
      bytesOf('PK', [3, 4], 'archive/data.pkl'),
      /ZIP archive or a PyTorch checkpoint.*safetensors/,
    ],
    ['an HTML page', bytesOf('\n<!DOCTYPE html><html>'), /web page/],
    [
      'a Git LFS pointer',
      bytesOf('version https://git-lfs.github.com/spec/v1\noid sha256:00'),
      /Git LFS pointer.*git lfs pull/,
    ],
    ['an old PyTorch checkpoint', bytesOf([0x80, 2, 0x8a, 10]), /pickle.*safetensors/],
    ['ONNX', bytesOf([8, 7, 0x12, 7], 'pytorch'), /ONNX graph/],
    ['JSON', bytesOf('{"error":"Repository not found"}'), /JSON/],
    ['an old GGML file', bytesOf('tjgg', [3, 0, 0, 0]), /before GGUF/],
    ['zeros', new Uint8Array(100), /zero bytes/],
    ['noise', bytesOf([0xde, 0xad, 0xbe, 0xef, 1, 2, 3, 4, 5]), /starts with de ad be ef/],
    ['three bytes', bytesOf('GGU'), /starts with 47 47 55/],
  ])('is identified: %s', async (_, bytes, message) => {
    expect(await refusal(bytes)).toMatchObject({
      code: 'wrong_magic',
      message: expect.stringMatching(message),
    });
  });

  it('has another error than a big-endian GGUF', async () => {
    for (const magic of ['GGUF', 'FUGG']) {
      const bytes = bytesOf(magic, [0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
      expect(await refusal(bytes)).toMatchObject({
        code: 'big_endian',
        message: expect.stringContaining('big-endian'),
      });
    }
  });

  it.each([1, 4, 77])('has another error than GGUF version %i', async (version) => {
    expect(await refusalOf({ version })).toMatchObject({
      code: 'unsupported_version',
      message: expect.stringContaining(`version ${version} (supported: 2, 3)`),
    });
  });
});

describe('an unsupported model', () => {
  it('is refused naming tensor, type and the supported types', async () => {
    const { code, message } = await refusalOf({ lies: { types: { w: 16, v: 21 } } });
    expect(code).toBe('unsupported_type');
    expect(message).toContain("tensor 'w' (and 1 more) is stored as IQ2_XXS");
    for (const type of ['F32', 'F16', 'BF16', 'Q8_0', 'Q4_0', 'Q4_K', 'IQ4_XS', 'MXFP4'])
      expect(message).toContain(type);
  });

  it('is rejected for an unknown type number', async () => {
    expect((await refusalOf({ lies: { types: { v: 1234 } } })).message).toContain(
      "'v' is stored as type number 1234",
    );
  });
});

describe('a corrupt header', () => {
  it.each<[string, Partial<GgufFile>, RegExp]>([
    ['a huge tensor count', { lies: { tensorCount: 2n ** 63n } }, /tensors/],
    ['a huge metadata count', { lies: { metadataCount: 2n ** 64n - 1n } }, /metadata entries/],
    [
      'a duplicate key',
      {
        metadata: [
          ['k', u32(1)],
          ['k', u32(2)],
        ],
      },
      /'k' occurs twice/,
    ],
    ['a key without letters', { metadata: [['', u32(1)]] }, /no key/],
    ['a duplicate tensor', { tensors: [f32('w', [4]), f32('w', [4])] }, /'w' occurs twice/],
    ['a tensor without a name', { tensors: [f32('', [4])] }, /no name/],
    ['alignment 0', { alignment: 0 }, /general\.alignment is 0/],
    ['alignment 48', { alignment: 48 }, /general\.alignment is 48/],
    ['an alignment that is text', { metadata: [['general.alignment', text('32')]] }, /general\.alignment/],
    ['five dimensions', { tensors: [f32('w', [1, 1, 1, 1, 4])] }, /5 dimensions/],
    ['no dimension', { tensors: [f32('w', [])] }, /0 dimensions/],
    ['an empty dimension', { lies: { dimensions: { w: [0n, 4n] } } }, /invalid shape \[4, 0\]/],
    ['dimensions that overflow', { lies: { dimensions: { w: [2n ** 40n, 2n ** 40n] } } }, /invalid shape/],
    ['a dimension above 2^53', { lies: { dimensions: { w: [2n ** 63n] } } }, /invalid shape/],
    [
      'a row that is no whole number of blocks',
      { lies: { types: { v: 8 } } },
      /'v' has rows of 8 elements, not a multiple of the 32 elements of a Q8_0 block/,
    ],
    ['a misaligned tensor', { lies: { offsets: { v: 130n } } }, /'v' is at data offset 130/],
    ['overlapping tensors', { lies: { offsets: { v: 96n } } }, /'w' and 'v' overlap/],
    ['an offset above 2^53', { lies: { offsets: { v: 2n ** 63n } } }, /'v' is at data offset Infinity/],
  ])('is refused: %s', async (_, changes, message) => {
    expect(await refusalOf(changes)).toMatchObject({
      code: 'corrupt',
      message: expect.stringMatching(message),
    });
  });

  it('is rejected for lengths beyond the file before anything is allocated', async () => {
    const bytes = ggufBytes(good);
    const view = new DataView(bytes.buffer);
    // After the fixed header: key length (8), 'general.name' (12), type (4), the string's length.
    const lengths = { key: 24, string: 24 + 8 + 12 + 4, array: 24 + 8 + 12 + 4 + 9 + 8 + 6 + 4 + 4 };
    for (const [what, at] of Object.entries(lengths)) {
      for (const length of [2n ** 64n - 1n, 2n ** 40n, BigInt(bytes.length + 1)]) {
        const true_ = view.getBigUint64(at, true);
        view.setBigUint64(at, length, true);
        const { code } = await refusal(bytes);
        expect(code, `${what} of ${length}`).toBe(length > 2n ** 30n ? 'corrupt' : 'truncated');
        view.setBigUint64(at, true_, true);
      }
    }
    await openSource(memorySource(bytes));
  });

  it('is refused for an unknown value type', async () => {
    const bytes = ggufBytes(good);
    new DataView(bytes.buffer).setUint32(24 + 8 + 12, 99, true);
    expect(await refusal(bytes)).toMatchObject({
      code: 'corrupt',
      message: expect.stringContaining("metadata 'general.name' has the unknown value type 99"),
    });
  });

  it('is rejected when the header exceeds its size limit, however large the file is', async () => {
    const bytes = ggufBytes(good);
    new DataView(bytes.buffer).setBigUint64(24 + 8 + 12 + 4, 2n ** 30n, true);
    // A file of 8 GiB that has room for a string of 1 GiB.
    const source = { ...memorySource(bytes), sizeBytes: 2 ** 33 };
    source.read = async (offset, length, into) => {
      expect(length).toBeLessThanOrEqual(1 << 20);
      const target = into ?? new Uint8Array(length);
      target.set(bytes.subarray(offset, offset + length));
      return target;
    };
    await expect(openSource(source)).rejects.toMatchObject({ code: 'corrupt' });
  });
});
