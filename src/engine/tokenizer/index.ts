import { type Metadata, ModelFileError } from '../formats/model-file.ts';
import { BytePairModel } from './byte-pair.ts';
import { CharacterMap } from './character-map.ts';
import { createNormalizer } from './normalizer.ts';
import { findPreTokenizerConfig } from './pre-tokenizer-configs.ts';
import { SentencePieceModel } from './sentence-piece.ts';
import { readSteps } from './steps.ts';
import type { TextModel } from './text-model.ts';
import { ModelTokenizer } from './tokenizer.ts';
import type { Tokenizer } from './types.ts';
import { UnigramModel } from './unigram.ts';
import { readFlag, readIds, readString, readStrings, readVocabulary, type Vocabulary } from './vocabulary.ts';
import { WordPieceModel } from './word-piece.ts';
import { WordSplitter } from './word-splitter.ts';
import {
  createSpaceMarkingPreTokenizer,
  createSplitPreTokenizer,
  createStepPreTokenizer,
  createSpaceCollapsingPreTokenizer,
  type PreTokenizer,
} from './pre-tokenizer.ts';

export { ChatTemplateError, createChatTemplate } from './chat-template.ts';
export type { ChatTemplate, Tokenizer } from './types.ts';

/** The parts of a tokenizer that depend on its kind. `addBos` and `addEos` are defaults that the metadata overrides. */
interface TokenizerParts {
  readonly vocabulary: Vocabulary;
  readonly model: TextModel;
  readonly addBos: boolean;
  readonly addEos: boolean;
  /** Runs before the normalizers of tokenizer.json. */
  readonly normalize?: (text: string) => string;
}

/** By `tokenizer.ggml.model`. */
const partsByKind: Readonly<Record<string, (metadata: Metadata) => TokenizerParts>> = {
  gpt2(metadata) {
    const steps = readStepsUnder(metadata, 'pre_tokenizer');
    const preTokenizerConfig = steps
      ? undefined
      : findPreTokenizerConfig(readString(metadata, 'pre') ?? 'default');
    const vocabulary = readVocabulary(metadata);
    const ignoreMerges =
      metadata.get('tokenizer.hugging_face.ignore_merges') ?? preTokenizerConfig?.ignoreMerges;
    const model = new BytePairModel({
      vocabulary,
      merges: readStrings(metadata, 'merges'),
      preTokenizer: preTokenizerConfig
        ? createSplitPreTokenizer(new WordSplitter(preTokenizerConfig.steps))
        : createStepPreTokenizer(steps ?? []),
      ignoreMerges: ignoreMerges === true,
    });
    return { vocabulary, model, addBos: preTokenizerConfig?.addBos === true, addEos: false };
  },
  llama(metadata) {
    const vocabulary = readVocabulary(metadata, { bosId: 1, eosId: 2, unknownId: 0 });
    // Some GGUF files have both merges and scores. Then the scores count.
    const usesScores = metadata.has('tokenizer.ggml.scores') || !metadata.has('tokenizer.ggml.merges');
    const preTokenizer =
      readPreTokenizer(metadata) ??
      createSpaceMarkingPreTokenizer(readFlag(metadata, 'add_space_prefix') ?? true);
    const merges = usesScores ? undefined : readStrings(metadata, 'merges');
    return {
      vocabulary,
      model: new SentencePieceModel(vocabulary, preTokenizer, merges),
      addBos: true,
      addEos: false,
    };
  },
  /** Merges whole texts in the order of the merge list. The scores of such files have no meaning. */
  gemma4(metadata) {
    const vocabulary = readVocabulary(metadata, { bosId: 2, eosId: 1, unknownId: 3 });
    const preTokenizer = createSpaceMarkingPreTokenizer(readFlag(metadata, 'add_space_prefix') ?? false);
    return {
      vocabulary,
      model: new SentencePieceModel(vocabulary, preTokenizer, readStrings(metadata, 'merges')),
      addBos: true,
      addEos: false,
    };
  },
  bert(metadata) {
    // [CLS] and [SEP] surround every text. GGUF misspells the key of [SEP].
    const idOrDefault = (name: string, id: number) => Number(metadata.get(`tokenizer.ggml.${name}`) ?? id);
    const vocabulary = readVocabulary(metadata, {
      bosId: idOrDefault('cls_token_id', 101),
      eosId: idOrDefault('seperator_token_id', 102),
      unknownId: 100,
    });
    const lowerCase = readFlag(metadata, 'normalizer.lowercase') ?? true;
    const stripAccents = readFlag(metadata, 'normalizer.strip_accents') ?? lowerCase;
    const maxWordCharacters = metadata.get('tokenizer.hugging_face.longest_word');
    const model = new WordPieceModel(vocabulary, {
      lowerCase,
      stripAccents,
      splitsHan: metadata.get('tokenizer.hugging_face.part_han') !== false,
      dropsControlCharacters: metadata.get('tokenizer.hugging_face.clean') !== false,
      maxWordCharacters: typeof maxWordCharacters === 'number' ? maxWordCharacters : Number.POSITIVE_INFINITY,
    });
    return { vocabulary, model, addBos: true, addEos: true };
  },
  t5(metadata) {
    const vocabulary = readVocabulary(metadata, { eosId: 1, unknownId: 2 });
    const spacePrefix = readFlag(metadata, 'add_space_prefix') ?? false;
    const collapsesSpaces = readFlag(metadata, 'remove_extra_whitespaces') ?? false;
    const preTokenizer =
      readPreTokenizer(metadata) ??
      (collapsesSpaces
        ? createSpaceCollapsingPreTokenizer(spacePrefix)
        : createSpaceMarkingPreTokenizer(spacePrefix));
    const table = metadata.get('tokenizer.ggml.precompiled_charsmap');
    const charsMap = ArrayBuffer.isView(table)
      ? new CharacterMap(Uint8Array.from(table as Uint8Array))
      : undefined;
    const model = new UnigramModel(vocabulary, preTokenizer);
    return {
      vocabulary,
      model,
      addBos: false,
      addEos: true,
      ...(charsMap ? { normalize: (text: string) => charsMap.apply(text) } : {}),
    };
  },
};

function readStepsUnder(metadata: Metadata, name: string) {
  return readSteps(metadata.get(`tokenizer.hugging_face.${name}`));
}

function readPreTokenizer(metadata: Metadata): PreTokenizer | undefined {
  const steps = readStepsUnder(metadata, 'pre_tokenizer');
  return steps && createStepPreTokenizer(steps);
}

/**
 * Creates the tokenizer that a model file describes.
 * @throws ModelFileError `unsupported_tokenizer` for an unknown kind or pre-tokenizer, `invalid_tokenizer` for lists
 *   that are missing or too short
 */
export function createTokenizer(metadata: Metadata): Tokenizer {
  const kind = readString(metadata, 'model');
  const create = kind !== undefined && Object.hasOwn(partsByKind, kind) ? partsByKind[kind] : undefined;
  if (!create || kind === undefined) {
    const found =
      kind === undefined ? 'the model file has no tokenizer.ggml.model' : `unknown tokenizer '${kind}'`;
    throw new ModelFileError(
      'unsupported_tokenizer',
      `${found} (supported: ${Object.keys(partsByKind).join(', ')})`,
    );
  }
  const { vocabulary, model, addBos, addEos, normalize } = create(metadata);
  const affixIds = (list: string, flag: string, isDefault: boolean, id: number | undefined) => {
    const listed = readIds(metadata, list);
    if (listed) return [...listed];
    return (readFlag(metadata, flag) ?? isDefault) && id !== undefined ? [id] : [];
  };
  const nfc = readFlag(metadata, 'normalizer.nfc') === true;
  const steps = [...(nfc ? [{ type: 'NFC' }] : []), ...(readStepsUnder(metadata, 'normalizer') ?? [])];
  const normalizeSteps = createNormalizer(steps);
  return new ModelTokenizer({
    kind,
    vocabulary,
    model,
    leading: affixIds('leading_token_ids', 'add_bos_token', addBos, vocabulary.bosId),
    trailing: affixIds('trailing_token_ids', 'add_eos_token', addEos, vocabulary.eosId),
    normalize: normalize ? (text) => normalizeSteps(normalize(text)) : normalizeSteps,
  });
}
