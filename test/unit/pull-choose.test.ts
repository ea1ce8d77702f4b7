import { describe, expect, it } from 'vitest';
import { type ChosenModel, chooseModel } from '../../src/pull/choose.ts';
import { parseReference } from '../../src/pull/reference.ts';

const chosen = (paths: readonly string[], wanted?: string): ChosenModel =>
  chooseModel(
    paths.map((path) => ({ path, sizeBytes: 1 << 20, checksum: { kind: 'sha256', hex: '00' } })),
    wanted,
  );
const choose = (paths: readonly string[], wanted?: string) => chosen(paths, wanted).entry;
const filesOf = (paths: readonly string[], wanted?: string) =>
  chosen(paths, wanted).files.map(({ path }) => path);

describe('the file that pull takes by default', () => {
  it.each<[string, string[], string]>([
    ['Q8_0 before everything', ['m-f16.gguf', 'm-q4_0.gguf', 'm-q8_0.gguf', 'm-q4_k_m.gguf'], 'm-q8_0.gguf'],
    ['Q6_K before Q5_K_M', ['m.Q5_K_M.gguf', 'm.Q6_K.gguf', 'm.Q4_K_M.gguf'], 'm.Q6_K.gguf'],
    ['Q4_K_M before Q4_0', ['m-Q4_0.gguf', 'm-Q4_K_S.gguf', 'm-Q4_K_M.gguf'], 'm-Q4_K_M.gguf'],
    ['Q4_K_S before IQ4_NL', ['m-IQ4_NL.gguf', 'm-Q4_K_S.gguf', 'm-IQ4_XS.gguf'], 'm-Q4_K_S.gguf'],
    ['IQ4_NL before IQ4_XS', ['m-Q4_0.gguf', 'm-IQ4_XS.gguf', 'm-IQ4_NL.gguf'], 'm-IQ4_NL.gguf'],
    ['IQ4_XS before Q4_0', ['m-f16.gguf', 'm.Q4_0.gguf', 'm.IQ4_XS.gguf'], 'm.IQ4_XS.gguf'],
    ['Q4_0 before F16', ['m-f16.gguf', 'm.Q4_0.gguf', 'm.IQ3_XS.gguf'], 'm.Q4_0.gguf'],
    ['MXFP4 before F16', ['gpt-oss-20b-F16.gguf', 'gpt-oss-20b-mxfp4.gguf'], 'gpt-oss-20b-mxfp4.gguf'],
    ['MXFP4 of experts before F16', ['m-F16.gguf', 'm-MXFP4_MOE.gguf'], 'm-MXFP4_MOE.gguf'],
    ['F16, also called FP16', ['m-fp16.gguf', 'm-bf16.gguf', 'm-IQ3_XS.gguf'], 'm-fp16.gguf'],
    ['BF16 is not F16', ['m-BF16.gguf', 'm-F32.gguf'], 'm-BF16.gguf'],
    ['F16 before 3 bits', ['m-Q2_K.gguf', 'm-Q3_K_L.gguf', 'm-f16.gguf'], 'm-f16.gguf'],
    ['Q3_K_L before Q2_K', ['m-Q2_K.gguf', 'm-Q3_K_S.gguf', 'm-Q3_K_L.gguf'], 'm-Q3_K_L.gguf'],
    ['the only file, when its name tells nothing', ['model.gguf', 'README.md'], 'model.gguf'],
    [
      'no projector and no importance matrix',
      ['mmproj-model-F16.gguf', 'm-imatrix-Q8_0.gguf', 'm-Q4_0.gguf'],
      'm-Q4_0.gguf',
    ],
    [
      'a split set, by its first part',
      ['m-Q8_0-00002-of-00002.gguf', 'm-Q8_0-00001-of-00002.gguf', 'm-F16.gguf'],
      'm-Q8_0-00001-of-00002.gguf',
    ],
  ])('is %s', (_, paths, expected) => {
    expect(choose(paths)).toBe(expected);
  });

  it('is asked for when several are equally good, listing them', () => {
    expect(() => choose(['a-Q8_0.gguf', 'b-Q8_0.gguf', 'c-F16.gguf'])).toThrow(
      /several files have the type Q8_0; name one as REPO:FILE: a-Q8_0\.gguf \(1 MiB\), b-Q8_0\.gguf \(1 MiB\)/,
    );
  });

  it('is refused when none can be read, listing what there is and what can be read', () => {
    expect(() => choose(['m-IQ3_XS.gguf', 'm-IQ2_XXS.gguf'])).toThrow(
      /Q8_0, Q6_K.*Q4_K_M.*IQ4_XS.*F16, BF16, F32.*m-IQ3_XS\.gguf/,
    );
    expect(() => choose(['m-IQ3_XS.gguf'])).toThrow(/the repository has no file of a supported type/);
    expect(() => choose(['README.md'])).toThrow(/has no GGUF file, no config\.json with \.safetensors/);
    expect(() => choose(['config.json', 'pytorch_model.bin'])).toThrow(/only PyTorch checkpoints/);
    expect(() => choose([])).toThrow(/has no GGUF file/);
  });

  it('is refused when parts of it are missing on the hub, naming them', () => {
    expect(() => choose(['m-Q8_0-00001-of-00003.gguf', 'm-Q8_0-00003-of-00003.gguf'])).toThrow(
      /only 2 parts of m-Q8_0-00001-of-00003\.gguf; missing: m-Q8_0-00002-of-00003\.gguf/,
    );
  });
});

describe('the file that pull is asked for', () => {
  const paths = [
    'm-Q8_0.gguf',
    'sub/m-Q4_0.gguf',
    'm-Q4_K_M.gguf',
    'a/x.gguf',
    'b/x.gguf',
    'm-UD-Q2_K_XL.gguf',
  ];
  it.each([
    ['m-Q4_K_M.gguf', 'm-Q4_K_M.gguf'],
    ['sub/m-Q4_0.gguf', 'sub/m-Q4_0.gguf'],
    ['m-Q4_0.gguf', 'sub/m-Q4_0.gguf'],
    ['q4_0', 'sub/m-Q4_0.gguf'],
    ['Q4_K_M', 'm-Q4_K_M.gguf'],
    ['q2_k_xl', 'm-UD-Q2_K_XL.gguf'],
    ['b/x.gguf', 'b/x.gguf'],
  ])('is found by %s', (wanted, expected) => {
    expect(choose(paths, wanted)).toBe(expected);
  });

  it('is refused when it is not there, or when several fit', () => {
    expect(() => choose(paths, 'Q5_0')).toThrow(/no GGUF file 'Q5_0'.*m-Q8_0\.gguf/);
    expect(() => choose(paths, 'x.gguf')).toThrow(/several files match 'x\.gguf'; name one: a\/x\.gguf/);
  });

  it('brings all parts of a split set, whichever part or quantisation is named', () => {
    const parts = [1, 2, 3].map((part) => `Q6_K/m-Q6_K-0000${part}-of-00003.gguf`);
    for (const wanted of ['Q6_K', 'm-Q6_K-00002-of-00003.gguf', parts[2]])
      expect(filesOf([...paths, ...parts], wanted)).toEqual(parts);
  });
});

describe('a repository without GGUF', () => {
  const face = [
    'config.json',
    'generation_config.json',
    'model-00001-of-00002.safetensors',
    'model-00002-of-00002.safetensors',
    'model.safetensors.index.json',
    'tokenizer.json',
    'tokenizer_config.json',
    'chat_template.jinja',
    'merges.txt',
    '1_Pooling/config.json',
    '2_Dense/model.safetensors',
  ];
  const others = [
    'README.md',
    'LICENSE',
    '.gitattributes',
    'pytorch_model.bin',
    'original/consolidated.00.pth',
    'consolidated.safetensors',
    'model.fp16.safetensors',
    'onnx/model.onnx',
    'onnx/config.json',
    'openvino/x.json',
    'flax_model.msgpack',
    'training_args.json',
  ];

  it('gives its folder: weights, settings, tokenizer, modules of embeddings, and nothing else', () => {
    expect(choose([...face, ...others])).toBeUndefined();
    expect(filesOf([...face, ...others]).sort()).toEqual([...face].sort());
  });

  it('gives weights under another name where there is no usual one', () => {
    const paths = [
      'config.json',
      'weights.safetensors',
      'adapter_model.safetensors',
      'consolidated.safetensors',
    ];
    expect(filesOf(paths)).toEqual(['config.json', 'weights.safetensors']);
  });

  it('gives an MLC folder', () => {
    const mlc = [
      'mlc-chat-config.json',
      'tensor-cache.json',
      'params_shard_0.bin',
      'params_shard_1.bin',
      'tokenizer.json',
    ];
    expect(filesOf([...mlc, 'README.md', 'logs.txt'])).toEqual(mlc);
  });

  it('says how it is named when a GGUF of it is asked for', () => {
    expect(() => choose(face, 'Q4_K_M')).toThrow(
      /no GGUF file 'Q4_K_M', only a folder of safetensors.*--quantize/,
    );
  });
});

describe('a reference to a hub', () => {
  it.each([
    ['o/n', { repo: 'o/n' }],
    ['o/n:q/f.gguf', { repo: 'o/n', file: 'q/f.gguf' }],
    ['o/n@v1.0', { repo: 'o/n', revision: 'v1.0' }],
    ['o/n:Q8_0@refs/pr/1', { repo: 'o/n', file: 'Q8_0', revision: 'refs/pr/1' }],
    ['o.x/n-1_2:', undefined],
    ['o', undefined],
    ['o/n/x', undefined],
    ['../n', undefined],
    ['o/..', undefined],
    ['o/n@', undefined],
    ['', undefined],
  ])('%s', (text, expected) => {
    expect(parseReference(text)).toEqual(expected);
  });
});
