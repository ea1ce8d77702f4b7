import { isRecord } from '../../../util/json.ts';
import type { MetadataArray, MetadataScalar } from '../model-file.ts';
import { tokenType } from '../../tokenizer/vocabulary.ts';
import {
  asObject,
  createInvalidError,
  type TokenizerKind,
  readTokenizerJson,
  type TokenizerStep,
  type TokenizerJson,
  createUnsupportedError,
} from './tokenizer-json.ts';
import { specialTokenEntries, type TokenizerFiles } from './tokenizer-special.ts';
import { preTokenizerEntries } from './tokenizer-split.ts';

export type { TokenizerFiles } from './tokenizer-special.ts';

type Entry = readonly [name: string, value: MetadataScalar | MetadataArray];

interface TokenTable {
  readonly texts: string[];
  readonly types: Int32Array;
  /** Finds a token by its text in tokenizer.json. */
  readonly findId: (text: string) => number | undefined;
}

/**
 * Converts tokenizer.json and the files beside it to the GGUF metadata that `createTokenizer` reads. Values that have
 * no GGUF key are stored as `tokenizer.hugging_face.*`.
 * @throws ModelFileError `unsupported_tokenizer` or `invalid_tokenizer`
 */
export function tokenizerMetadata(files: TokenizerFiles): Map<string, MetadataScalar | MetadataArray> {
  const json = readTokenizerJson(files.tokenizer);
  const kind = detectKind(json);
  const tokens = readTokens(files, json, kind);
  return new Map<string, MetadataScalar | MetadataArray>([
    ['tokenizer.ggml.model', kind],
    ['tokenizer.ggml.tokens', kind === 'bert' ? markWordStarts(json.model, tokens) : tokens.texts],
    ['tokenizer.ggml.token_type', tokens.types],
    ...modelEntries(json.model, kind, tokens),
    ...preTokenizerEntries(json, kind),
    ...flagEntries(json, tokens.texts.length),
    ...specialTokenEntries(files, json, tokens.findId, tokens.texts.length),
  ]);
}

function detectKind(json: TokenizerJson): TokenizerKind {
  const { type } = json.model;
  if (type === 'WordPiece') return 'bert';
  if (type === 'Unigram') return 't5';
  if (type !== 'BPE') {
    throw createUnsupportedError(`the model type '${type}' (supported: BPE, WordPiece, Unigram)`);
  }
  const steps = [...json.normalizers, ...json.preTokenizers, ...json.decoders];
  if (steps.some((step) => step.type === 'ByteLevel')) return 'gpt2';
  const affixes = ['continuing_subword_prefix', 'end_of_word_suffix'].filter((name) => json.model[name]);
  if (affixes.length > 0) throw createUnsupportedError(`BPE with '${affixes.join("' and '")}'`);
  return 'llama';
}

function readTokens(files: TokenizerFiles, json: TokenizerJson, kind: TokenizerKind): TokenTable {
  const vocabulary = readVocabulary(json.model);
  const lastId = json.addedTokens.reduce((most, { id }) => Math.max(most, id), vocabulary.texts.length - 1);
  // The embedding decides the size: tokens beyond it cannot be used, and embeddings beyond the tokens are never
  // sampled.
  const config = asObject(files.config);
  const rows = config['vocab_size'] ?? asObject(config['text_config'])['vocab_size'];
  const size = typeof rows === 'number' ? rows : lastId + 1;
  const texts: string[] = Array.from({ length: size }, () => '');
  const types = new Int32Array(size).fill(tokenType.unused);
  for (let id = 0; id < Math.min(size, vocabulary.texts.length); id++) {
    const text = vocabulary.texts[id];
    if (text === undefined) continue;
    texts[id] = text;
    types[id] = tokenType.normal;
  }
  const added = new Map(json.addedTokens.map(({ content, id }) => [content, id]));
  const findId = (text: string) => {
    const id = added.get(text) ?? vocabulary.findId(text);
    return id !== undefined && id < size ? id : undefined;
  };
  if (kind === 'llama' || kind === 't5') markByteTokens(json.model, types, findId);
  for (const { id, content, special } of json.addedTokens) {
    if (id >= size) continue;
    texts[id] = content;
    types[id] = special || looksSpecial(content) ? tokenType.control : tokenType.userDefined;
  }
  for (let id = 0; id < size; id++) if (types[id] === tokenType.unused) texts[id] = `[PAD${id}]`;
  const unknown = findUnknownId(json.model, findId);
  if (unknown !== undefined && (kind === 'llama' || kind === 't5')) types[unknown] = tokenType.unknown;
  return { texts, types, findId };
}

/** Larger ids come from a corrupt file and would exhaust memory. */
const maxTokens = 2 ** 24;

interface DeclaredVocabulary {
  /** By id; undefined for unused ids. */
  readonly texts: readonly (string | undefined)[];
  readonly findId: (text: string) => number | undefined;
}

/** Reads `vocab`: an object of texts and ids for BPE and WordPiece, an array of `[text, score]` for Unigram. */
function readVocabulary(model: TokenizerStep): DeclaredVocabulary {
  const { vocab } = model;
  if (model.type === 'Unigram') return readUnigramVocabulary(vocab);
  if (!isRecord(vocab)) throw createInvalidError("'model.vocab' must be an object of texts and ids");
  const ids = vocab as Readonly<Record<string, number>>;
  const texts: string[] = [];
  // for...in instead of Object.entries: a quarter of a million pair arrays would take longer than the rest of the load.
  for (const text in ids) {
    const id = ids[text] as number;
    if (!Number.isInteger(id) || id < 0 || id > maxTokens) {
      throw createInvalidError(`'model.vocab' has ${id} for the id of ${JSON.stringify(text)}`);
    }
    texts[id] = text;
  }
  return { texts, findId: (text) => (Object.hasOwn(ids, text) ? ids[text] : undefined) };
}

function readUnigramVocabulary(vocab: unknown): DeclaredVocabulary {
  if (!Array.isArray(vocab))
    throw createInvalidError("'model.vocab' must be an array of [text, score] pairs");
  const texts = vocab.map((entry: unknown, id) => {
    const [text, score]: unknown[] = Array.isArray(entry) ? entry : [];
    if (typeof text !== 'string' || typeof score !== 'number') {
      throw createInvalidError(`'model.vocab[${id}]' must be a text and a score`);
    }
    return text;
  });
  const ids = new Map(texts.map((text, id) => [text, id]));
  return { texts, findId: (text) => ids.get(text) };
}

function markByteTokens(model: TokenizerStep, types: Int32Array, findId: TokenTable['findId']): void {
  if (model['byte_fallback'] !== true) return;
  for (let byte = 0; byte < 256; byte++) {
    const id = findId(`<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`);
    if (id !== undefined) types[id] = tokenType.byte;
  }
}

function findUnknownId(model: TokenizerStep, findId: TokenTable['findId']): number | undefined {
  if (typeof model['unk_id'] === 'number') return model['unk_id'];
  return typeof model['unk_token'] === 'string' ? findId(model['unk_token']) : undefined;
}

/** Detects special tokens that a file does not mark as special. llama.cpp's converter uses the same patterns. */
function looksSpecial(text: string): boolean {
  return (
    ['<pad>', '<mask>', '<2mass>', '[@BOS@]'].includes(text) ||
    (text.startsWith('<|') && text.endsWith('|>')) ||
    (text.startsWith('<｜') && text.endsWith('｜>')) ||
    (text.startsWith('<unused') && text.endsWith('>'))
  );
}

/** GGUF marks tokens that start a word with '▁'; Hugging Face marks the others, with a prefix such as '##'. */
function markWordStarts(model: TokenizerStep, tokens: TokenTable): readonly string[] {
  const prefix = model['continuing_subword_prefix'];
  const continuationPrefix = typeof prefix === 'string' ? prefix : '##';
  return tokens.texts.map((text, id) => {
    if (tokens.types[id] === tokenType.control) return text;
    return text.startsWith(continuationPrefix) ? text.slice(continuationPrefix.length) : `▁${text}`;
  });
}

function modelEntries(model: TokenizerStep, kind: TokenizerKind, tokens: TokenTable): Entry[] {
  const entries: Entry[] = [];
  const unknown = findUnknownId(model, tokens.findId);
  if (unknown !== undefined) entries.push(['tokenizer.ggml.unknown_token_id', unknown]);
  if (kind === 'gpt2' || kind === 'llama') {
    entries.push(['tokenizer.ggml.merges', readMerges(model['merges'])]);
  } else if (kind === 't5') {
    entries.push(['tokenizer.ggml.scores', unigramScores(model, tokens.texts.length)]);
  } else {
    const maxWordCharacters = model['max_input_chars_per_word'];
    entries.push([
      'tokenizer.hugging_face.longest_word',
      typeof maxWordCharacters === 'number' ? maxWordCharacters : 100,
    ]);
  }
  return entries;
}

/** Reads merges as `"a b"`; newer files have `["a", "b"]`. */
function readMerges(merges: unknown): string[] {
  if (!Array.isArray(merges)) throw createInvalidError("'model.merges' must be an array");
  return merges.map((merge: unknown, index) => {
    if (typeof merge === 'string') return merge;
    if (!Array.isArray(merge) || merge.length !== 2) {
      throw createInvalidError(`'model.merges[${index}]' must be two texts`);
    }
    return `${merge[0]} ${merge[1]}`;
  });
}

function unigramScores(model: TokenizerStep, size: number): Float64Array {
  const scores = new Float64Array(size);
  (model['vocab'] as readonly (readonly [string, number])[]).forEach(([, score], id) => {
    if (id < size) scores[id] = score;
  });
  return scores;
}

/** The whitespace stripping of added tokens, which has no GGUF keys. */
function flagEntries(json: TokenizerJson, size: number): Entry[] {
  const flags = { lstrip: 'strips_left', rstrip: 'strips_right', single_word: 'single_words' } as const;
  return (Object.keys(flags) as (keyof typeof flags)[]).flatMap((flag) => {
    const ids = json.addedTokens.filter((token) => token[flag] && token.id < size).map(({ id }) => id);
    // An empty `rstrip` list must be written: without the list, the tokenizer decides by the model's name.
    if (ids.length === 0 && flag !== 'rstrip') return [];
    return [[`tokenizer.hugging_face.${flags[flag]}`, Int32Array.from(ids)] as const];
  });
}
