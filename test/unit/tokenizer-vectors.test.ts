import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { createTokenizer } from '../../src/engine/tokenizer/index.ts';
import { describeShared, modelsPath } from '../support/shared.ts';
import { bpeMetadata, ggufMetadata, readJson, readMergeLines } from '../support/tokenizer-files.ts';

type Vocabulary = Readonly<Record<string, number>>;

/** llama.cpp's own texts and the ids that it gives them. */
function vectors(input: string, output: string): [text: string, ids: number[]][] {
  const texts = readFileSync(input, 'utf8').split('\n__ggml_vocab_test__\n').slice(0, -1);
  const lines = readFileSync(output, 'utf8').split('\n').slice(0, texts.length);
  return texts.map((text, i) => [text, (lines[i] ?? '').split(' ').filter(Boolean).map(Number)]);
}

const folder = 'data/vocab/ggml-vocab-';

for (const name of ['gpt-2', 'starcoder', 'deepseek-coder', 'llama-spm', 'phi-3', 'bert-bge']) {
  const input = name === 'bert-bge' ? 'bert-bge' : 'llama-bpe';
  describeShared(
    `tokenizer ${name}`,
    [`${folder}${name}.gguf`, `${folder}${input}.gguf.inp`, `${folder}${name}.gguf.out`],
    (model, inp, out) => {
      it('gives every vector the ids of llama.cpp', async () => {
        const tokenizer = createTokenizer(await ggufMetadata(model));
        const cases = vectors(inp, out);
        expect(cases.length).toBeGreaterThan(40);
        for (const [text, ids] of cases) expect([text, tokenizer.encode(text)]).toEqual([text, ids]);
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
        const tokenizer = createTokenizer(
          bpeMetadata({
            pre: name,
            vocabulary: readJson(vocabulary) as Vocabulary,
            merges: readMergeLines(merges),
          }),
        );
        for (const [text, ids] of vectors(inp, out)) {
          expect([text, tokenizer.encode(text)]).toEqual([text, ids]);
        }
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
    const tokenizer = () =>
      createTokenizer(
        bpeMetadata({
          pre: 'llama-bpe',
          vocabulary: readJson(vocabulary) as Vocabulary,
          merges: readMergeLines(merges),
          special: llama3Special,
          more: { bos_token_id: 128000, eos_token_id: 128009 },
        }),
      );

    it('gives every vector the ids of llama.cpp', () => {
      const llama = tokenizer();
      for (const [text, ids] of vectors(inp, out)) {
        expect([text, llama.encode(text)]).toEqual([text, ids]);
      }
    });

    it("gives Hugging Face's ids with the leading BOS, and their text back", () => {
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

function expectEncodings(tokenizer: ReturnType<typeof createTokenizer>, path: string, name: string) {
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
    ])('%s: the same ids', async (name, model, longText) => {
      const tokenizer = createTokenizer(await ggufMetadata(model));
      expectEncodings(tokenizer, tests, name);
      const expected = readJson(longText) as { text: string; token_ids: number[] };
      expect(tokenizer.encode(expected.text, { addSpecial: true })).toEqual(expected.token_ids);
    });
  },
);

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
