import { describe, expect, it } from 'vitest';
import { chooseFile } from '../../src/pull/choose.ts';

const choose = (paths: string[], wanted?: string): string =>
  chooseFile(
    paths.map((path) => ({ path, sizeBytes: 1 << 20, checksum: { kind: 'sha256', hex: '00' } })),
    wanted,
  ).path;

describe('the file that pull takes without being told', () => {
  it.each<[string, string[], string]>([
    ['Q8_0 before everything', ['m-f16.gguf', 'm-q4_0.gguf', 'm-q8_0.gguf', 'm-q4_k_m.gguf'], 'm-q8_0.gguf'],
    ['Q4_0 before F16', ['m-f16.gguf', 'm.Q4_0.gguf', 'm.Q5_K_M.gguf'], 'm.Q4_0.gguf'],
    ['F16, also called FP16', ['m-fp16.gguf', 'm-bf16.gguf', 'm-IQ4_XS.gguf'], 'm-fp16.gguf'],
    ['BF16 is not F16', ['m-BF16.gguf', 'm-F32.gguf'], 'm-BF16.gguf'],
    ['the only file, when its name tells nothing', ['model.gguf', 'README.md'], 'model.gguf'],
    ['no projector', ['mmproj-model-F16.gguf', 'm-Q4_0.gguf'], 'm-Q4_0.gguf'],
    [
      'no part of a split model',
      ['m-Q8_0-00001-of-00002.gguf', 'm-Q8_0-00002-of-00002.gguf', 'm-F16.gguf'],
      'm-F16.gguf',
    ],
  ])('is %s', (_, paths, expected) => {
    expect(choose(paths)).toBe(expected);
  });

  it('is asked for when several are equally good, listing them', () => {
    expect(() => choose(['a-Q8_0.gguf', 'b-Q8_0.gguf', 'c-F16.gguf'])).toThrow(
      /several files are Q8_0, name one as REPO:FILE: a-Q8_0\.gguf \(1 MiB\), b-Q8_0\.gguf \(1 MiB\)/,
    );
  });

  it('is refused when none can be read, listing what there is and what can be read', () => {
    expect(() => choose(['m-Q4_K_M.gguf', 'm-IQ2_XXS.gguf'])).toThrow(
      /Q8_0, Q4_0, F16, BF16, F32.*m-Q4_K_M\.gguf/,
    );
    expect(() => choose(['m-Q4_K_M.gguf'])).toThrow(/no whole file of a type that can be read/);
    expect(() => choose(['m-Q8_0-00001-of-00002.gguf'])).toThrow(/no whole file/);
    expect(() => choose(['model.safetensors', 'README.md'])).toThrow(/holds no GGUF file/);
    expect(() => choose([])).toThrow(/holds no GGUF file/);
  });
});

describe('the file that pull is told to take', () => {
  const paths = ['m-Q8_0.gguf', 'sub/m-Q4_0.gguf', 'm-Q4_K_M.gguf', 'a/x.gguf', 'b/x.gguf'];
  it.each([
    ['m-Q4_K_M.gguf', 'm-Q4_K_M.gguf'],
    ['sub/m-Q4_0.gguf', 'sub/m-Q4_0.gguf'],
    ['m-Q4_0.gguf', 'sub/m-Q4_0.gguf'],
    ['q4_0', 'sub/m-Q4_0.gguf'],
    ['Q4_K_M', 'm-Q4_K_M.gguf'],
    ['b/x.gguf', 'b/x.gguf'],
  ])('is found by %s', (wanted, expected) => {
    expect(choose(paths, wanted)).toBe(expected);
  });

  it('is refused when it is not there, or when several fit', () => {
    expect(() => choose(paths, 'Q5_0')).toThrow(/no GGUF file 'Q5_0'.*m-Q8_0\.gguf/);
    expect(() => choose(paths, 'x.gguf')).toThrow(/several files fit 'x\.gguf', name one: a\/x\.gguf/);
  });
});
