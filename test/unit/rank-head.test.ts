/** Which files rank documents, and what is refused of them. */
import { mkdtempSync, cpSync, readFileSync, writeFileSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import type { Metadata, ModelFile } from '../../src/engine/formats/model-file.ts';
import { openModelFile } from '../../src/engine/formats/open-model-file.ts';
import { kindOf } from '../../src/engine/loading/model-info.ts';
import { buildGraph } from '../../src/engine/models/registry.ts';
import { createPair, createPairEncoder, joinPair } from '../../src/engine/ranking/pair-encoder.ts';
import { scorePair, validateRankRequest } from '../../src/engine/ranking/rank-request.ts';
import { createTokenizer } from '../../src/engine/tokenizer/index.ts';
import { platforms } from '../support/architectures.ts';
import { rerankerOf } from '../support/rerankers.ts';

const folder = mkdtempSync(join(tmpdir(), 'rerankers-'));
afterAll(() => rmSync(folder, { recursive: true }));

const open = async (path: string): Promise<ModelFile> =>
  openModelFile(await platforms.software.modelFiles(path));

/** The file with other tensors and metadata; undefined removes one. */
function changed(
  file: ModelFile,
  changes: {
    tensors?: Readonly<Record<string, readonly number[] | undefined>>;
    metadata?: Readonly<
      Record<string, Metadata extends ReadonlyMap<string, infer V> ? V | undefined : never>
    >;
    name?: string;
  },
): ModelFile {
  const tensors = new Map(file.tensors);
  for (const [name, shape] of Object.entries(changes.tensors ?? {})) {
    const found = tensors.get(name);
    tensors.delete(name);
    const stand = found ?? file.tensors.get('token_embd.weight');
    if (shape && stand) tensors.set(name, { ...stand, name, shape });
  }
  const metadata = new Map(file.metadata);
  for (const [key, value] of Object.entries(changes.metadata ?? {})) {
    if (value === undefined) metadata.delete(key);
    else metadata.set(key, value);
  }
  return { ...file, name: changes.name ?? file.name, tensors, metadata };
}

describe('BERT and XLM-RoBERTa', () => {
  test('a head makes a reranker, also where the file names no pooling, and a named pooling an embedder', async () => {
    const file = await open(rerankerOf('bert-reranker').path('model.gguf'));
    expect(file.metadata.has('bert.pooling_type')).toBe(false);
    expect(kindOf(await buildGraph(file))).toBe('rerank');
    expect(kindOf(await buildGraph(changed(file, { metadata: { 'bert.pooling_type': 4 } })))).toBe('rerank');
    expect(kindOf(await buildGraph(changed(file, { metadata: { 'bert.pooling_type': 1 } })))).toBe('embed');
    await file.close();
  });

  test.each([
    [
      'without the dense layer, which the converter leaves out',
      { tensors: { 'cls.weight': undefined, 'cls.bias': undefined } },
      /last layer of a classification head.*and not the dense layer.*load the model's Hugging Face folder/,
    ],
    [
      'without the last layer',
      { tensors: { 'cls.output.weight': undefined }, metadata: { 'bert.pooling_type': 4 } },
      /tensor 'cls\.output\.weight', the last layer of the classification head, is missing/,
    ],
    [
      'with several labels',
      { tensors: { 'cls.output.weight': [3, 32] } },
      /its head has 3 labels, so it classifies texts and does not rank documents \(supported: 1\)/,
    ],
    [
      'of another width',
      { tensors: { 'cls.output.weight': [1, 64] } },
      /must have rows of 32 elements, got \[1, 64\]/,
    ],
    [
      'with a dense layer of another width',
      { tensors: { 'cls.weight': [1, 32] } },
      /'cls\.weight' must be \[32, 32\]/,
    ],
    [
      'with too many biases',
      { tensors: { 'cls.output.bias': [2] } },
      /'cls\.output\.bias' must be \[1\], got \[2\]/,
    ],
  ] as const)('a head %s is refused', async (_, changes, message) => {
    const file = await open(rerankerOf('bert-reranker').path('model.gguf'));
    await expect(buildGraph(changed(file, changes))).rejects.toThrow(message);
    await file.close();
  });

  test('a folder whose head has several labels is refused, with their number', async () => {
    const copy = join(folder, 'labels');
    cpSync(rerankerOf('xlm-roberta-reranker').path('hf'), copy, { recursive: true });
    const path = join(copy, 'config.json');
    const config = JSON.parse(readFileSync(path, 'utf8')) as object;
    writeFileSync(path, JSON.stringify({ ...config, id2label: { 0: 'no', 1: 'yes', 2: 'maybe' } }));
    await expect(open(copy)).rejects.toThrow(
      /the classification head has 3 labels, so the model classifies texts/,
    );
    writeFileSync(path, JSON.stringify({ ...config, id2label: undefined }));
    await expect(open(copy)).rejects.toThrow(/the classification head has 2 labels/);
  });
});

describe('Qwen3-Reranker', () => {
  const path = rerankerOf('qwen3-reranker').path('model.gguf');
  const plain = {
    tensors: { 'cls.output.weight': undefined },
    metadata: { 'qwen3.pooling_type': undefined, 'general.name': 'Toy', 'general.basename': undefined },
  };

  test.each([
    ['its head', { metadata: { 'general.name': 'Toy' } }, 'toy.gguf', 'rerank'],
    [
      'its name',
      { ...plain, metadata: { ...plain.metadata, 'general.name': 'Qwen3 Reranker 0.6B' } },
      'toy.gguf',
      'rerank',
    ],
    ["its file's name", plain, '/models/Qwen3-Reranker-0.6B-Q8_0.gguf', 'rerank'],
    ['a name with a vision encoder', plain, '/models/qwen3-vl-reranker-2b.gguf', 'rerank'],
    ['nothing, so it generates', plain, '/qwen3-reranker/toy.gguf', 'generate'],
  ] as const)('is known by %s', async (_, changes, name, kind) => {
    const file = await open(path);
    const graph = await buildGraph(changed(file, { ...changes, name }));
    expect(kindOf(graph)).toBe(kind);
    await file.close();
  });

  test('the rows of yes and no are those of the head, of the output matrix, or one row', async () => {
    const file = await open(path);
    const { rankHead: ofHead } = await buildGraph(file);
    const name = 'Qwen3-Reranker.gguf';
    const { rankHead: ofTokens } = await buildGraph(changed(file, { ...plain, name }));
    expect(ofTokens).toEqual(ofHead);
    // The converter lists yes first; a file may list them the other way around.
    const turned = changed(file, { metadata: { 'qwen3.classifier.output_labels': ['no', 'yes'] } });
    const { rankHead: ofTurned } = await buildGraph(turned);
    expect(ofTurned?.weights).toEqual(ofHead?.weights.map((weight) => -weight));
    const { rankHead: single } = await buildGraph(
      changed(file, { tensors: { 'cls.output.weight': [1, 64] } }),
    );
    expect(single?.weights).not.toEqual(ofHead?.weights);
    await file.close();
  });

  test.each([
    [{ tensors: { 'cls.output.weight': [3, 64] } }, /has 3 labels.*\(supported: 1, or 2: yes and no\)/],
    [{ metadata: { 'qwen3.classifier.output_labels': ['a', 'b'] } }, /must hold yes and no, got a, b/],
    [
      {
        ...plain,
        name: 'Qwen3-Reranker.gguf',
        metadata: { ...plain.metadata, 'tokenizer.ggml.tokens': ['a'] },
      },
      /lacks the tokens 'yes' and 'no'/,
    ],
  ] as const)('is refused with %j', async (changes, message) => {
    const file = await open(path);
    await expect(buildGraph(changed(file, changes))).rejects.toThrow(message);
    await file.close();
  });

  test('a folder is known by its README, its configuration or its name; without them it generates', async () => {
    const copy = join(folder, 'toy');
    cpSync(rerankerOf('qwen3-reranker').path('hf'), copy, { recursive: true });
    const kindAt = async (where: string) => {
      const file = await open(where);
      const kind = kindOf(await buildGraph(file));
      await file.close();
      return kind;
    };
    expect(await kindAt(copy)).toBe('rerank');
    rmSync(join(copy, 'README.md'));
    expect(await kindAt(copy)).toBe('generate');
    const configPath = join(copy, 'config.json');
    const config = readFileSync(configPath, 'utf8');
    writeFileSync(
      configPath,
      JSON.stringify({ ...(JSON.parse(config) as object), _name_or_path: 'Qwen/Qwen3-Reranker-4B' }),
    );
    expect(await kindAt(copy)).toBe('rerank');
    for (const name of ['Qwen3_Reranker', 'qwen3-vl-reranker']) {
      writeFileSync(configPath, JSON.stringify({ ...(JSON.parse(config) as object), _name_or_path: name }));
      expect(await kindAt(copy), name).toBe('rerank');
      writeFileSync(configPath, config);
      writeFileSync(join(copy, 'README.md'), `---\ntags: []\n---\n# ${name}\n`);
      expect(await kindAt(copy), name).toBe('rerank');
      rmSync(join(copy, 'README.md'));
    }
    renameSync(copy, join(folder, 'Qwen3-Reranker-0.6B'));
    expect(await kindAt(join(folder, 'Qwen3-Reranker-0.6B'))).toBe('rerank');
  });
});

describe('pairs', () => {
  test.each(['bert-reranker', 'xlm-roberta-reranker', 'qwen3-reranker'])(
    '%s: special tokens that a text writes out cannot end the query or answer for the model',
    async (name) => {
      const file = await open(rerankerOf(name).path('hf'));
      const { rankHead } = await buildGraph(file);
      const tokenizer = createTokenizer(file.metadata);
      const encoder = createPairEncoder(name, tokenizer, rankHead?.pairs ?? 'bert');
      const text = 'a [SEP] b </s> c <|im_end|> d <|im_start|> e <s> [CLS]';
      const isUnknown = (id: number) => ['[UNK]', '<unk>'].includes(tokenizer.tokenText(id));
      const controls = (ids: readonly number[]) =>
        ids.filter((id) => tokenizer.isControl(id) && !isUnknown(id)).length;
      const frame = encoder.encodeQuery('a');
      expect(controls(encoder.encodeQuery(text).before)).toBe(controls(frame.before));
      const pair = createPair(frame, encoder.encodeDocument(text));
      expect(controls(joinPair(pair))).toBe(controls(frame.before) + controls(frame.after));
      await file.close();
    },
  );

  test('a pair without tokens, one that is too long and a score that is not finite are refused', () => {
    const pair = (length: number) =>
      createPair(
        { before: [], after: [] },
        Array.from({ length }, () => 1),
      );
    expect(() => validateRankRequest([pair(0)], { contextLength: 8 })).toThrow('pair 0 has no tokens');
    expect(() => validateRankRequest([pair(8), pair(9), pair(12)], { contextLength: 8 })).toThrow(
      'the model ranks pairs of up to 8 tokens, but pair 1 has 9, pair 2 has 12',
    );
    const head = { activation: 'tanh', weights: Float64Array.of(2, -1), bias: 0.5, pairs: 'bert' } as const;
    expect(scorePair(Float32Array.of(1, 0.25), head)).toBeCloseTo(
      2 * Math.tanh(1) - Math.tanh(0.25) + 0.5,
      12,
    );
    expect(scorePair(Float32Array.of(3, 1), { ...head, activation: 'none' })).toBe(5.5);
    expect(() => scorePair(Float32Array.of(Number.NaN, 1), head)).toThrow('the score is not finite');
  });
});
