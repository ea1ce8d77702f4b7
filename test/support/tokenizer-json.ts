/** Writes the tokenizer.json that Hugging Face has for a vocabulary which we only have as GGUF, in the family's own words. */
import type { Metadata } from '../../src/engine/formats/model-file.ts';

type Json = Readonly<Record<string, unknown>>;

const type = { unknown: 2, control: 3, userDefined: 4, byte: 6 } as const;

const split = (Regex: string): Json => ({
  type: 'Split',
  pattern: { Regex },
  behavior: 'Isolated',
  invert: false,
});
const byteLevel = (use_regex: boolean): Json => ({
  type: 'ByteLevel',
  add_prefix_space: false,
  trim_offsets: true,
  use_regex,
});
const sequence = (...pretokenizers: Json[]): Json => ({ type: 'Sequence', pretokenizers });
const cl100k = (digits: string) =>
  `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`;

/** Pre-tokenizers of byte-level families. */
const preTokenizers: Readonly<Record<string, Json>> = {
  'gpt-2': byteLevel(true),
  starcoder: sequence({ type: 'Digits', individual_digits: true }, byteLevel(true)),
  'deepseek-coder': sequence(
    split('[\r\n]'),
    split('\\s?\\p{L}+'),
    split('\\s?\\p{P}+'),
    split('[一-龥ࠀ-一가-퟿]+'),
    { type: 'Digits', individual_digits: true },
    byteLevel(false),
  ),
  qwen2: sequence(split(cl100k('\\p{N}')), byteLevel(false)),
  'llama-bpe': sequence(split(cl100k('\\p{N}{1,3}')), byteLevel(false)),
};

export function byteLevelJson(metadata: Metadata, family: string): Json {
  return {
    ...frame(metadata),
    normalizer: family === 'qwen2' ? { type: 'NFC' } : null,
    pre_tokenizer: preTokenizers[family],
    decoder: byteLevel(true),
    model: {
      type: 'BPE',
      unk_token: null,
      ignore_merges: family === 'llama-bpe',
      vocab: vocabulary(metadata, plain),
      merges: metadata.get('tokenizer.ggml.merges'),
    },
  };
}

/** Llama 2's: merges in place of the scores, spaces marked by the normalizer. */
export function sentencePieceJson(metadata: Metadata): Json {
  return {
    ...frame(metadata),
    normalizer: {
      type: 'Sequence',
      normalizers: [
        { type: 'Prepend', prepend: '▁' },
        { type: 'Replace', pattern: { String: ' ' }, content: '▁' },
      ],
    },
    pre_tokenizer: null,
    decoder: { type: 'Fuse' },
    model: {
      type: 'BPE',
      unk_token: '<unk>',
      fuse_unk: true,
      byte_fallback: true,
      vocab: vocabulary(metadata, (text, tokenType) =>
        tokenType === type.userDefined ? undefined : plain(text, tokenType),
      ),
      merges: mergesOfScores(metadata),
    },
  };
}

export function wordPieceJson(metadata: Metadata): Json {
  return {
    ...frame(metadata),
    normalizer: {
      type: 'BertNormalizer',
      clean_text: true,
      handle_chinese_chars: true,
      strip_accents: null,
      lowercase: true,
    },
    pre_tokenizer: { type: 'BertPreTokenizer' },
    post_processor: {
      type: 'TemplateProcessing',
      single: [
        { SpecialToken: { id: '[CLS]', type_id: 0 } },
        { Sequence: { id: 'A', type_id: 0 } },
        { SpecialToken: { id: '[SEP]', type_id: 0 } },
      ],
      pair: [],
      special_tokens: {
        '[CLS]': { id: '[CLS]', ids: [101], tokens: ['[CLS]'] },
        '[SEP]': { id: '[SEP]', ids: [102], tokens: ['[SEP]'] },
      },
    },
    decoder: { type: 'WordPiece', prefix: '##', cleanup: true },
    model: {
      type: 'WordPiece',
      unk_token: '[UNK]',
      continuing_subword_prefix: '##',
      max_input_chars_per_word: 100,
      vocab: vocabulary(metadata, (text, tokenType) => {
        if (tokenType === type.control || tokenType === type.unknown) return text;
        return text.startsWith('▁') ? text.slice(1) : `##${text}`;
      }),
    },
  };
}

const plain = (text: string, _tokenType: number): string | undefined => text;

function entries(metadata: Metadata): [id: number, text: string, tokenType: number][] {
  const texts = metadata.get('tokenizer.ggml.tokens') as readonly string[];
  const types = metadata.get('tokenizer.ggml.token_type') as Int32Array;
  return texts.map((text, id) => [id, text, types[id] ?? 1]);
}

function vocabulary(
  metadata: Metadata,
  write: (text: string, tokenType: number) => string | undefined,
): Json {
  const texts = entries(metadata).map(([id, text, tokenType]) => [write(text, tokenType), id] as const);
  return Object.fromEntries(texts.filter(([text]) => text !== undefined));
}

function frame(metadata: Metadata): Json {
  const added = entries(metadata).filter(([, , tokenType]) =>
    ([type.unknown, type.control, type.userDefined] as number[]).includes(tokenType),
  );
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: added.map(([id, content, tokenType]) => ({
      id,
      content,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
      special: tokenType !== type.userDefined,
    })),
    post_processor: null,
  };
}

/** Every way to put a token together from two others, the best token first. */
function mergesOfScores(metadata: Metadata): [string, string][] {
  const scores = metadata.get('tokenizer.ggml.scores') as Float32Array;
  const normal = entries(metadata).filter(([, , tokenType]) => tokenType !== type.userDefined);
  const known = new Map(normal.map(([id, text]) => [text, id]));
  const merges = normal.flatMap(([id, text]) => {
    const chars = Array.from(text);
    const ways: { pair: [string, string]; score: number; parts: [number, number] }[] = [];
    for (let i = 1; i < chars.length; i++) {
      const pair: [string, string] = [chars.slice(0, i).join(''), chars.slice(i).join('')];
      const [left, right] = [known.get(pair[0]), known.get(pair[1])];
      if (left !== undefined && right !== undefined) {
        ways.push({ pair, score: scores[id] as number, parts: [left, right] });
      }
    }
    return ways.toSorted((a, b) => a.parts[0] - b.parts[0] || a.parts[1] - b.parts[1]);
  });
  return merges.toSorted((a, b) => b.score - a.score).map(({ pair }) => pair);
}
