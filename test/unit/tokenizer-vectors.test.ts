import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import type { Metadata } from '../../src/engine/formats/model-file.ts';
import { tokenizerMetadata } from '../../src/engine/formats/hugging-face/tokenizer.ts';
import { createTokenizer, type Tokenizer } from '../../src/engine/tokenizer/index.ts';
import { describeShared, modelsPath } from '../support/shared.ts';
import { bpeMetadata, ggufMetadata, readJson, readMergeLines } from '../support/tokenizer-files.ts';
import { byteLevelJson, sentencePieceJson, wordPieceJson } from '../support/tokenizer-json.ts';
import { runsRest } from '../support/tier.ts';

type Vocabulary = Readonly<Record<string, number>>;

/** llama.cpp's test texts and their ids. */
function vectors(input: string, output: string): [text: string, ids: number[]][] {
  const texts = readFileSync(input, 'utf8').split('\n__ggml_vocab_test__\n').slice(0, -1);
  const lines = readFileSync(output, 'utf8').split('\n').slice(0, texts.length);
  return texts.map((text, i) => [text, (lines[i] ?? '').split(' ').filter(Boolean).map(Number)]);
}

const folder = 'data/vocab/ggml-vocab-';

function expectVectors(tokenizer: Tokenizer, inp: string, out: string): void {
  const cases = vectors(inp, out);
  expect(cases.length).toBeGreaterThan(40);
  for (const [text, ids] of cases) expect([text, tokenizer.encode(text)]).toEqual([text, ids]);
}

/** The tokenizer.json of the same vocabulary. */
const documents = {
  'gpt-2': (metadata: Metadata) => byteLevelJson(metadata, 'gpt-2'),
  starcoder: (metadata: Metadata) => byteLevelJson(metadata, 'starcoder'),
  'deepseek-coder': (metadata: Metadata) => byteLevelJson(metadata, 'deepseek-coder'),
  'llama-spm': sentencePieceJson,
  'phi-3': sentencePieceJson,
  'bert-bge': wordPieceJson,
};

for (const [name, document] of Object.entries(documents)) {
  const input = name === 'bert-bge' ? 'bert-bge' : 'llama-bpe';
  describeShared(
    `tokenizer ${name}`,
    [`${folder}${name}.gguf`, `${folder}${input}.gguf.inp`, `${folder}${name}.gguf.out`],
    (model, inp, out) => {
      it('gives every vector the ids of llama.cpp', async () => {
        expectVectors(createTokenizer(await ggufMetadata(model)), inp, out);
      });

      it.runIf(runsRest)('gives them from tokenizer.json, too', async () => {
        const tokenizer = document(await ggufMetadata(model));
        expectVectors(createTokenizer(tokenizerMetadata({ tokenizer })), inp, out);
      });
    },
  );
}

for (const name of ['qwen2', 'deepseek-r1-qwen']) {
  describeShared(
    `tokenizer ${name}`,
    [
      'data/tokenizers/qwen2/vocab.json',
      'data/tokenizers/qwen2/merges.txt',
      `${folder}llama-bpe.gguf.inp`,
      `${folder}${name}.gguf.out`,
    ],
    (vocabulary, merges, inp, out) => {
      it('gives every vector the ids of llama.cpp', () => {
        const metadata = bpeMetadata({
          pre: name,
          vocabulary: readJson(vocabulary) as Vocabulary,
          merges: readMergeLines(merges),
        });
        expectVectors(createTokenizer(metadata), inp, out);
        const tokenizer = byteLevelJson(metadata, 'qwen2');
        expectVectors(createTokenizer(tokenizerMetadata({ tokenizer })), inp, out);
      });
    },
  );
}

const llama3Special = { '<|begin_of_text|>': 128000, '<|end_of_text|>': 128001, '<|eot_id|>': 128009 };

describeShared(
  'tokenizer llama-bpe',
  [
    'data/tokenizers/llama3.2/encoder.json',
    'data/tokenizers/llama3.2/vocab.bpe',
    `${folder}llama-bpe.gguf.inp`,
    `${folder}llama-bpe.gguf.out`,
    'data/tokenizers/expected/llama_3.2_encoded.json',
    'data/tokenizers/expected/tokenizer_tests.json',
  ],
  (vocabulary, merges, inp, out, encoded, tests) => {
    const metadata = () =>
      bpeMetadata({
        pre: 'llama-bpe',
        vocabulary: readJson(vocabulary) as Vocabulary,
        merges: readMergeLines(merges),
        special: llama3Special,
        more: { bos_token_id: 128000, eos_token_id: 128009 },
      });
    const tokenizer = () => createTokenizer(metadata());

    it('gives every vector the ids of llama.cpp', () => expectVectors(tokenizer(), inp, out));

    it('gives them from tokenizer.json, too', () => {
      const document = byteLevelJson(metadata(), 'llama-bpe');
      expectVectors(createTokenizer(tokenizerMetadata({ tokenizer: document })), inp, out);
    });

    it("gives Hugging Face's ids with the leading BOS, and decodes them to the text", () => {
      const llama = tokenizer();
      const expected = readJson(encoded) as { text: string; token_ids: number[]; decoded_text: string };
      expect(llama.encode(expected.text, { addSpecial: true })).toEqual(expected.token_ids);
      expect(llama.decode(expected.token_ids)).toBe(expected.text);
      expect(llama.decode(expected.token_ids, { special: true })).toBe(expected.decoded_text);
      expectEncodings(llama, tests, 'pcuenq/Llama-3.2-1B-Instruct-tokenizer');
    });
  },
);

interface Encoding {
  input: string;
  encoded: { input_ids: number[] };
}

function expectEncodings(tokenizer: Tokenizer, path: string, name: string) {
  const cases = (readJson(path) as Record<string, Encoding[]>)[name] ?? [];
  expect(cases.length).toBeGreaterThan(10);
  for (const { input, encoded } of cases) {
    const ids = tokenizer.encode(input, { addSpecial: true, parseSpecial: true });
    expect([input, ids]).toEqual([input, encoded.input_ids]);
  }
}

describeShared(
  "Hugging Face's encodings",
  [
    'data/tokenizers/expected/tokenizer_tests.json',
    `${folder}gpt-2.gguf`,
    `${folder}llama-spm.gguf`,
    `${folder}bert-bge.gguf`,
    'data/tokenizers/expected/llama_encoded.json',
    'data/tokenizers/expected/gpt2_encoded_tokens.json',
    'data/tokenizers/expected/bert_uncased_encoded.json',
  ],
  (tests, gpt2, spm, bert, llamaText, gpt2Text, bertText) => {
    it.each([
      ['distilgpt2', gpt2, gpt2Text],
      ['coreml-projects/Llama-2-7b-chat-coreml', spm, llamaText],
      ['bert-base-uncased', bert, bertText],
      ['google-bert/bert-base-uncased', bert, bertText],
    ])('%s: the same ids', async (name, model, longText) => {
      const tokenizer = createTokenizer(await ggufMetadata(model));
      expectEncodings(tokenizer, tests, name);
      const expected = readJson(longText) as { text: string; token_ids: number[] };
      expect(tokenizer.encode(expected.text, { addSpecial: true })).toEqual(expected.token_ids);
    });
  },
);

describeShared(
  "Whisper's encodings, on GPT-2's vocabulary",
  [
    `${folder}gpt-2.gguf`,
    'data/tokenizers/expected/tokenizer_tests.json',
    'data/tokenizers/expected/whisper_tiny_en_encoded.json',
  ],
  (gpt2, tests, longText) => {
    it('openai/whisper-tiny.en: the same ids, with the two leading tokens', async () => {
      const document = byteLevelJson(await ggufMetadata(gpt2), 'gpt-2');
      const special = { '<|startoftranscript|>': 50257, '<|notimestamps|>': 50362, '<|endoftext|>': 50256 };
      const part = (id: string) => ({ SpecialToken: { id, type_id: 0 } });
      const tokenizer = createTokenizer(
        tokenizerMetadata({
          tokenizer: {
            ...document,
            added_tokens: Object.entries(special).map(([content, id]) => ({ id, content, special: true })),
            post_processor: {
              type: 'TemplateProcessing',
              single: [
                part('<|startoftranscript|>'),
                part('<|notimestamps|>'),
                { Sequence: { id: 'A', type_id: 0 } },
                part('<|endoftext|>'),
              ],
              special_tokens: Object.fromEntries(
                Object.entries(special).map(([id, number]) => [id, { id, ids: [number], tokens: [id] }]),
              ),
            },
          },
        }),
      );
      expectEncodings(tokenizer, tests, 'openai/whisper-tiny.en');
      const expected = readJson(longText) as { text: string; token_ids: number[]; decoded_text: string };
      expect(tokenizer.encode(expected.text, { addSpecial: true })).toEqual(expected.token_ids);
      expect(tokenizer.decode(expected.token_ids, { special: true })).toBe(expected.decoded_text);
    });
  },
);

describeShared(
  'distilbert-base-multilingual-cased',
  ['data/tokenizers/expected/distilbert_cased_encoded.json'],
  (path) => {
    it('a text is split as by Hugging Face, with a vocabulary of its own tokens', () => {
      const expected = readJson(path) as { text: string; bpe_tokens: string[]; token_ids: number[] };
      // They include the longest token that the complete vocabulary has at each position.
      const tokens = ['[CLS]', ...expected.bpe_tokens, '[SEP]'];
      expect(tokens.length).toBe(expected.token_ids.length);
      const texts = Array.from({ length: Math.max(...expected.token_ids) + 1 }, (_, id) => `unused ${id}`);
      const types = new Int32Array(texts.length).fill(1);
      for (const [i, token] of tokens.entries()) {
        const id = expected.token_ids[i] as number;
        const special = token.startsWith('[');
        texts[id] = token.startsWith('##') ? token.slice(2) : special ? token : `▁${token}`;
        if (special) types[id] = 3;
      }
      texts[100] = '[UNK]';
      types[100] = 2;
      const tokenizer = wordPieceJson(
        new Map<string, string[] | Int32Array>([
          ['tokenizer.ggml.tokens', texts],
          ['tokenizer.ggml.token_type', types],
        ]),
      );
      const normalizer = { type: 'BertNormalizer', lowercase: false, strip_accents: null };
      const cased = createTokenizer(tokenizerMetadata({ tokenizer: { ...tokenizer, normalizer } }));
      expect(cased.encode(expected.text, { addSpecial: true })).toEqual(expected.token_ids);
    });
  },
);

describeShared('tokenizer_tests.json', ['data/tokenizers/expected/tokenizer_tests.json'], (path) => {
  it('has no unused encodings except those without a vocabulary', () => {
    const run = [
      'bert-base-uncased',
      'google-bert/bert-base-uncased',
      'distilgpt2',
      'coreml-projects/Llama-2-7b-chat-coreml',
      'openai/whisper-tiny.en',
      'pcuenq/Llama-3.2-1B-Instruct-tokenizer',
    ];
    const withoutVocabulary = [
      'distilbert/distilbert-base-multilingual-cased',
      'openai/whisper-large-v2',
      'pcuenq/gemma-tokenizer',
      't5-base',
      'tiiuae/falcon-7b',
    ];
    const there = Object.keys(readJson(path) as object);
    expect(there.sort()).toEqual([...run, ...withoutVocabulary].sort());
  });
});

// For these there are only the ids of one text and no vocabulary, so the test checks what the tokens decode to.
const decoded: [name: string, model: string, leading: number, trailing: number][] = [
  ['gemma_encoded', 'llama', 1, 0],
  ['t5_base_encoded', 't5', 0, 1],
  ['falcon_encoded', 'gpt2', 0, 0],
  ['whisper_large_v2_encoded', 'gpt2', 2, 1],
];
for (const [name, model, leading, trailing] of decoded) {
  describeShared(name, [`data/tokenizers/expected/${name}.json`], (path) => {
    it('its tokens decode to its text', () => {
      const expected = readJson(path) as { decoded_text: string; bpe_tokens: string[]; token_ids: number[] };
      const ids = expected.token_ids.slice(leading, expected.token_ids.length - trailing);
      expect(expected.bpe_tokens.length).toBe(ids.length);
      const tokens: string[] = Array.from({ length: Math.max(...ids) + 1 }, (_, id) => `[unused ${id}]`);
      expected.bpe_tokens.forEach((token, i) => (tokens[ids[i] as number] = token));
      const tokenizer = createTokenizer(
        new Map<string, string | string[]>([
          ['tokenizer.ggml.model', model],
          ['tokenizer.ggml.pre', 'falcon'],
          ['tokenizer.ggml.tokens', tokens],
          ['tokenizer.ggml.merges', ['a b']],
        ]),
      );
      // SentencePiece's first token begins with the space that a text has before it.
      const text = expected.decoded_text.replaceAll(/<[^>]*>/g, '');
      expect(tokenizer.decode(ids).replace(/^ /, '')).toBe(text);
    });
  });
}

it('the embedded model: tokenizer.json gives the metadata of its GGUF file', async () => {
  const gguf = await ggufMetadata(modelsPath('lathe-tiny-q8_0.gguf'));
  const read = (name: string) => readJson(modelsPath(`${name}.json`));
  const metadata = tokenizerMetadata({
    tokenizer: read('tokenizer'),
    tokenizerConfig: read('tokenizer_config'),
    generationConfig: read('generation_config'),
    config: read('config'),
  });
  const keys = [
    'model',
    'pre',
    'tokens',
    'token_type',
    'merges',
    'eos_token_id',
    'padding_token_id',
    'add_bos_token',
  ];
  for (const key of keys) {
    expect([key, metadata.get(`tokenizer.ggml.${key}`)]).toEqual([key, gguf.get(`tokenizer.ggml.${key}`)]);
  }
  expect(createTokenizer(metadata).endIds).toEqual(createTokenizer(gguf).endIds);
});

it('the embedded model: prompts of golden.json have the ids that llama.cpp gave them', async () => {
  const tokenizer = createTokenizer(await ggufMetadata(modelsPath('lathe-tiny-q8_0.gguf')));
  const golden = readJson(modelsPath('golden.json')) as {
    prompts: { prompt: string; ids: number[]; greedy: number[]; text: string }[];
  };
  expect(golden.prompts.length).toBeGreaterThan(0);
  for (const { prompt, ids, greedy, text } of golden.prompts) {
    expect(tokenizer.encode(prompt, { parseSpecial: true, addSpecial: true })).toEqual(ids);
    expect(tokenizer.decode(ids, { special: true })).toBe(prompt);
    expect(tokenizer.decode(greedy, { special: true })).toBe(text);
  }
});
