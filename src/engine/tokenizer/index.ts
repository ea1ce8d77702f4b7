import { type Metadata, ModelFileError } from '../formats/model-file.ts';
import { BytePairModel } from './byte-pair.ts';
import { preTokenizer } from './pre-tokenizers.ts';
import { SentencePieceModel } from './sentence-piece.ts';
import { ModelTokenizer } from './tokenizer.ts';
import type { Tokenizer } from './types.ts';
import { readFlag, readString, readStrings, readVocabulary } from './vocabulary.ts';
import { WordPieceModel } from './word-piece.ts';

export { ChatTemplateError, createChatTemplate } from './chat-template.ts';
export type { ChatTemplate, Tokenizer } from './types.ts';

/** By `tokenizer.ggml.model`. */
const kinds: Readonly<Record<string, (metadata: Metadata) => Tokenizer>> = {
  gpt2(metadata) {
    const pre = preTokenizer(readString(metadata, 'pre') ?? 'default');
    const vocabulary = readVocabulary(metadata);
    return new ModelTokenizer({
      kind: 'gpt2',
      vocabulary,
      model: new BytePairModel(vocabulary, readStrings(metadata, 'merges'), pre),
      addBos: readFlag(metadata, 'add_bos_token') ?? pre.addBos === true,
      addEos: readFlag(metadata, 'add_eos_token') ?? false,
    });
  },
  llama(metadata) {
    const vocabulary = readVocabulary(metadata, { bosId: 1, eosId: 2, unknownId: 0 });
    return new ModelTokenizer({
      kind: 'llama',
      vocabulary,
      model: new SentencePieceModel(vocabulary, readFlag(metadata, 'add_space_prefix') ?? true),
      addBos: readFlag(metadata, 'add_bos_token') ?? true,
      addEos: readFlag(metadata, 'add_eos_token') ?? false,
    });
  },
  bert(metadata) {
    // [CLS] and [SEP] frame every text; GGUF spells the key of the second one like this.
    const named = (name: string, id: number) => Number(metadata.get(`tokenizer.ggml.${name}`) ?? id);
    const vocabulary = readVocabulary(metadata, {
      bosId: named('cls_token_id', 101),
      eosId: named('seperator_token_id', 102),
      unknownId: 100,
    });
    const lowerCase = readFlag(metadata, 'normalizer.lowercase') ?? true;
    const stripAccents = readFlag(metadata, 'normalizer.strip_accents') ?? lowerCase;
    return new ModelTokenizer({
      kind: 'bert',
      vocabulary,
      model: new WordPieceModel(vocabulary, { lowerCase, stripAccents }),
      addBos: true,
      addEos: true,
    });
  },
};

/**
 * The tokenizer that a model file describes.
 * @throws ModelFileError `unsupported_tokenizer` for a kind or a pre-tokenizer that we do not have,
 *   `invalid_tokenizer` for lists that are missing or too short
 */
export function createTokenizer(metadata: Metadata): Tokenizer {
  const kind = readString(metadata, 'model');
  const create = kind !== undefined && Object.hasOwn(kinds, kind) ? kinds[kind] : undefined;
  if (!create) {
    const found = kind === undefined ? 'the model file names no tokenizer' : `unknown tokenizer '${kind}'`;
    throw new ModelFileError(
      'unsupported_tokenizer',
      `${found} (supported: ${Object.keys(kinds).join(', ')})`,
    );
  }
  return create(metadata);
}
