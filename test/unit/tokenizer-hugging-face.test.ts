import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { tokenizerMetadata } from '../../src/engine/formats/hugging-face/tokenizer.ts';
import { ModelFileError } from '../../src/engine/formats/model-file.ts';
import { createTokenizer } from '../../src/engine/tokenizer/index.ts';
import { describeShared } from '../support/shared.ts';

type Json = Readonly<Record<string, unknown>>;

const token = (id: number, content: string, flags: Json = {}) => ({ id, content, special: true, ...flags });
const byteLevel = { type: 'ByteLevel', add_prefix_space: false, use_regex: true };

/** Letters a to e, a space, and a merge. */
function document(more: Json = {}, model: Json = {}): Json {
  return {
    added_tokens: [token(7, '<s>'), token(8, '</s>'), token(9, '<tool>', { special: false })],
    pre_tokenizer: byteLevel,
    model: {
      type: 'BPE',
      vocab: { a: 0, b: 1, c: 2, d: 3, e: 4, Ġ: 5, ab: 6 },
      merges: ['a b'],
      ...model,
    },
    ...more,
  };
}

const part = (id: string) => ({ SpecialToken: { id, type_id: 0 } });
const text = { Sequence: { id: 'A', type_id: 0 } };
const template = (...single: Json[]) => ({ post_processor: { type: 'TemplateProcessing', single } });

const read = (json: Json, beside: Omit<Parameters<typeof tokenizerMetadata>[0], 'tokenizer'> = {}) =>
  tokenizerMetadata({ tokenizer: json, ...beside });
const encode = (...from: Parameters<typeof read>) =>
  createTokenizer(read(...from)).encode('ab', { addSpecial: true });

describe('the tokens around a text', () => {
  const named = {
    tokenizerConfig: { bos_token: '<s>', eos_token: { content: '</s>' }, add_bos_token: true },
  };

  it('come from the post-processor, not from tokenizer_config.json', () => {
    expect(encode(document(template(text)), named)).toEqual([6]);
    expect(encode(document(template(part('<s>'), text)), named)).toEqual([7, 6]);
    expect(encode(document(template(part('<s>'), text, part('</s>'))))).toEqual([7, 6, 8]);
    const roberta = { type: 'RobertaProcessing', cls: ['<s>', 7], sep: ['</s>', 8] };
    expect(encode(document({ post_processor: roberta }))).toEqual([7, 6, 8]);
    const sequence = {
      type: 'Sequence',
      processors: [byteLevel, template(part('<s>'), text).post_processor],
    };
    expect(encode(document({ post_processor: sequence }))).toEqual([7, 6]);
  });

  it('may be more than GGUF can express', () => {
    const frame = template(part('<s>'), part('<tool>'), text, part('<tool>'));
    expect(encode(document(frame), named)).toEqual([7, 9, 6, 9]);
    // The trailing token is not the EOS token.
    const metadata = read(document(template(text, part('<tool>'))), named);
    expect(metadata.get('tokenizer.ggml.eos_token_id')).toBe(8);
    expect(createTokenizer(metadata).encode('ab', { addSpecial: true })).toEqual([6, 9]);
  });

  it('come from tokenizer_config.json without a post-processor', () => {
    expect(encode(document(), named)).toEqual([7, 6]);
    expect(encode(document({ post_processor: byteLevel }), named)).toEqual([7, 6]);
    expect(encode(document())).toEqual([6]);
  });
});

describe('tokens with a role', () => {
  it('come from tokenizer_config.json, then special_tokens_map.json, then from ids', () => {
    const id = (metadata: ReturnType<typeof read>) => metadata.get('tokenizer.ggml.eos_token_id');
    const config = { eos_token_id: 9 };
    const specialTokensMap = { eos_token: '</s>' };
    expect(id(read(document(), { config, specialTokensMap }))).toBe(8);
    expect(id(read(document(), { config, tokenizerConfig: { eos_token: '<s>' }, specialTokensMap }))).toBe(7);
    expect(id(read(document(), { config }))).toBe(9);
    expect(id(read(document(), { config: { text_config: config } }))).toBe(9);
    expect(id(read(document(), { config: { eos_token_id: 99 } }))).toBeUndefined();
  });

  it('every end token of generation_config.json ends an answer', () => {
    const files = { tokenizerConfig: { eos_token: '<s>' }, generationConfig: { eos_token_id: [7, 9, 6] } };
    const { endIds, eosId } = createTokenizer(read(document(), files));
    expect(eosId).toBe(7);
    expect(endIds).toEqual(new Set([6, 7, 8, 9]));
  });
});

describe('the vocabulary', () => {
  it('has the size of the embedding: placeholders for missing tokens, and no tokens beyond it', () => {
    const padded = read(document(), { config: { vocab_size: 12 } });
    const tokens = padded.get('tokenizer.ggml.tokens') as string[];
    expect(tokens.slice(8)).toEqual(['</s>', '<tool>', '[PAD10]', '[PAD11]']);
    expect([...(padded.get('tokenizer.ggml.token_type') as Int32Array)].slice(6)).toEqual([1, 3, 3, 4, 5, 5]);
    const cut = read(document(), { config: { text_config: { vocab_size: 8 } } });
    expect(createTokenizer(cut).vocabSize).toBe(8);
    expect(createTokenizer(cut).encode('</s>', { parseSpecial: true })).not.toContain(8);
  });

  it('has merges in either form', () => {
    expect(encode(document({}, { merges: [['a', 'b']] }))).toEqual([6]);
  });
});

describe('a pre-tokenizer', () => {
  const split = (Regex: string, more: Json = {}) => ({
    type: 'Split',
    pattern: { Regex },
    behavior: 'Isolated',
    ...more,
  });
  const steps = (...pretokenizers: Json[]) => ({
    pre_tokenizer: {
      type: 'Sequence',
      pretokenizers: [...pretokenizers, { ...byteLevel, use_regex: false }],
    },
  });
  const cl100k = (digits: string, newline: string) =>
    `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^${newline}\\p{L}\\p{N}]?\\p{L}+|${digits}| ?[^\\s\\p{L}\\p{N}]+[${newline}]*|\\s*[${newline}]+|\\s+(?!\\S)|\\s+`;
  const pre = (json: Json) => read(json).get('tokenizer.ggml.pre');

  it('with a GGUF name gets that name, in any notation', () => {
    expect(pre(document())).toBe('gpt-2');
    expect(pre(document(steps({ type: 'Digits', individual_digits: true }, byteLevel)))).toBe('smollm');
    expect(pre(document(steps(split(cl100k('\\p{N}', '\\r\\n')))))).toBe('qwen2');
    expect(pre(document(steps(split(cl100k('\\p{N}', '\r\n')))))).toBe('qwen2');
    const threes = steps(split(cl100k('\\p{N}{1,3}', '\\r\\n')));
    expect(pre(document(threes, { ignore_merges: true }))).toBe('llama-bpe');
    expect(pre(document(threes))).toBe('dbrx');
    expect(
      pre(document(steps(split(cl100k('\\p{N}', '\\r\\n'), { behavior: 'Removed', invert: true })))),
    ).toBe('qwen2');
  });

  it('without a GGUF name is run from tokenizer.json', () => {
    const metadata = read(document(steps(split('a(?=b)'))));
    expect(metadata.has('tokenizer.ggml.pre')).toBe(false);
    expect(createTokenizer(metadata).encode('ab')).toEqual([0, 1]);
  });

  it('splits the same by its name and from tokenizer.json', () => {
    const named = createTokenizer(read(document(steps(split(cl100k('\\p{N}', '\\r\\n'))))));
    const unnamed = createTokenizer(read(document(steps(split(`(?:${cl100k('\\p{N}', '\\r\\n')})`)))));
    const texts = fc.string({ unit: fc.constantFrom(...Array.from("ab 'sS1\n\r.é😀")), maxLength: 40 });
    fc.assert(
      fc.property(texts, (some) => {
        expect(unnamed.encode(some)).toEqual(named.encode(some));
      }),
    );
  });

  it('that is not supported is rejected with its pattern', () => {
    const refused = (json: Json) => () => createTokenizer(read(json));
    expect(refused(document(steps(split('\\Ga'))))).toThrow(
      /\\G at character 2 of "\\\\Ga"; use a GGUF file/,
    );
    expect(refused(document(steps(split('(a'))))).toThrow(/a group without its \)/);
    expect(refused(document(steps(split('(\\p{L})\\1'))))).toThrow(/back-reference to more than ASCII/);
    expect(refused(document(steps(split('\\p{Nonesuch}'))))).toThrow(/unknown property Nonesuch/);
    expect(refused(document(steps({ type: 'UnicodeScripts' })))).toThrow(/pre-tokenizer .*UnicodeScripts/);
    expect(refused(document({ normalizer: { type: 'Nmt' } }))).toThrow(/normalizer .*Nmt/);
  });
});

it('texts are normalized as the file defines', () => {
  const vocab = { é: 0, Ã: 1, '©': 2, 'Ã©': 3, a: 4 };
  const nfc = document({ normalizer: { type: 'NFC' }, added_tokens: [] }, { vocab, merges: ['Ã ©'] });
  expect(read(nfc).get('tokenizer.ggml.normalizer.nfc')).toBe(true);
  expect(createTokenizer(read(nfc)).encode('e\u0301')).toEqual([3]);
  const lower = document({ normalizer: { type: 'Lowercase' }, added_tokens: [] });
  expect(createTokenizer(read(lower)).encode('AB')).toEqual([6]);
});

describe('is refused:', () => {
  const model = (value: unknown) => ({ ...document(), model: value });
  it.each<[what: string, json: unknown, message: RegExp]>([
    ['no object', [], /expected an object, found object/],
    ['nothing', null, /expected an object, found null/],
    ['no model', {}, /'model' must be an object/],
    ['a model without type', model({}), /'model.type' must be a string/],
    ['word level', model({ type: 'WordLevel' }), /'WordLevel' \(supported: BPE, WordPiece, Unigram\)/],
    ['no vocabulary', model({ type: 'BPE', merges: [] }), /'model.vocab' must be an object/],
    ['an id that is none', document({}, { vocab: { a: -1 } }), /'model.vocab' has -1 for the id of "a"/],
    ['an id without measure', document({}, { vocab: { a: 1e15 } }), /'model.vocab' has 1000000000000000/],
    ['no merges', document({}, { merges: null }), /'model.merges' must be an array/],
    [
      'a merge of three',
      document({}, { merges: [['a', 'b', 'c']] }),
      /'model.merges\[0\]' must be two texts/,
    ],
    ['an odd added token', document({ added_tokens: [{ id: 1 }] }), /'added_tokens\[0\]' must have an 'id'/],
    ['an odd normalizer', document({ normalizer: 'NFC' }), /'normalizer' must be null or an object/],
    ['a word end', document({ pre_tokenizer: null }, { end_of_word_suffix: '</w>' }), /'end_of_word_suffix'/],
    [
      'a Unigram of texts',
      model({ type: 'Unigram', vocab: ['a'] }),
      /'model.vocab\[0\]' must be a text and a score/,
    ],
    [
      'WordPiece by spaces',
      model({ type: 'WordPiece', vocab: {} }),
      /WordPiece with the pre-tokenizer ByteLevel/,
    ],
  ])('%s', (_, tokenizer, message) => {
    const run = () => tokenizerMetadata({ tokenizer });
    expect(run).toThrow(ModelFileError);
    expect(run).toThrow(message);
  });
});

describeShared('a small Llama 3', ['data/tokenizers/mini_llama.json'], (path) => {
  it('is read without a decoder, flags or a configuration', () => {
    const metadata = tokenizerMetadata({ tokenizer: JSON.parse(readFileSync(path, 'utf8')) as unknown });
    const tokenizer = createTokenizer(metadata);
    const sample = 'Hello, world! 12345 \n\n it\u2019s <|begin_of_text|>';
    expect(tokenizer.decode(tokenizer.encode(sample))).toBe(sample);
    expect(tokenizer.encode('<|begin_of_text|>', { parseSpecial: true })).toEqual([128000]);
  });
});
