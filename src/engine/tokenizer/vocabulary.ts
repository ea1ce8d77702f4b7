import { type Metadata, type MetadataArray, ModelFileError } from '../formats/model-file.ts';
import { endTokenTexts, findEndTokens } from './end-tokens.ts';
import {
  type FillInTheMiddleTokens,
  findFillInTheMiddleTokens,
  fillInTheMiddleTokenTexts,
} from './fill-in-the-middle.ts';
import type { AddedTokenFlags } from './special-token-matcher.ts';

/** GGUF's numbers of `tokenizer.ggml.token_type`. */
export const tokenType = {
  undefined: 0,
  normal: 1,
  unknown: 2,
  control: 3,
  userDefined: 4,
  unused: 5,
  byte: 6,
} as const;

/** The token data that every tokenizer reads from a model file's metadata. */
export interface Vocabulary {
  /** Token texts by id, as stored in the file. */
  readonly tokens: readonly string[];
  /** The first id of each text. */
  readonly ids: ReadonlyMap<string, number>;
  readonly types: Uint8Array;
  /** Scores by id; all 0 when the file has none. */
  readonly scores: Float64Array;
  readonly bosId: number | undefined;
  readonly eosId: number | undefined;
  readonly unknownId: number | undefined;
  readonly endIds: ReadonlySet<number>;
  readonly fim: FillInTheMiddleTokens | undefined;
  readonly addedTokenFlags: AddedTokenFlags;
}

const ggmlKey = (name: string) => `tokenizer.ggml.${name}`;

export function readString(metadata: Metadata, name: string): string | undefined {
  const value = metadata.get(ggmlKey(name));
  return typeof value === 'string' ? value : undefined;
}

export function readFlag(metadata: Metadata, name: string): boolean | undefined {
  const value = metadata.get(ggmlKey(name));
  return typeof value === 'boolean' ? value : undefined;
}

export function readStrings(metadata: Metadata, name: string): readonly string[] {
  const value = metadata.get(ggmlKey(name));
  if (!Array.isArray(value) || typeof value[0] !== 'string') {
    throw new ModelFileError(
      'invalid_tokenizer',
      `the model file has no array of strings in '${ggmlKey(name)}'; convert the model again with its tokenizer`,
    );
  }
  return value as readonly string[];
}

/** Reads a token id. An id outside the vocabulary counts as absent. */
function readId(metadata: Metadata, name: string, size: number): number | undefined {
  const value = metadata.get(ggmlKey(name));
  if (typeof value !== 'number' && typeof value !== 'bigint') return undefined;
  const id = Number(value);
  return id >= 0 && id < size ? id : undefined;
}

/** Reads a list of ids that comes from tokenizer.json and has no GGUF key. */
export function readIds(metadata: Metadata, name: string): Iterable<number> | undefined {
  const value = metadata.get(`tokenizer.hugging_face.${name}`);
  return value instanceof Int32Array ? value : undefined;
}

function readNumbers(metadata: Metadata, name: string, size: number): ArrayLike<number> | undefined {
  const value = metadata.get(ggmlKey(name));
  if (value === undefined) return undefined;
  const numbers = value as Exclude<MetadataArray, BigInt64Array | BigUint64Array>;
  if (!ArrayBuffer.isView(numbers) || numbers.length < size) {
    throw new ModelFileError(
      'invalid_tokenizer',
      `'${ggmlKey(name)}' must hold a number for each of the ${size} tokens; the model file is corrupt, download it again`,
    );
  }
  return numbers;
}

/** @param defaults ids to use when the file has none (SentencePiece and BERT files often omit them) */
export function readVocabulary(
  metadata: Metadata,
  defaults: { bosId?: number; eosId?: number; unknownId?: number } = {},
): Vocabulary {
  const tokens = readStrings(metadata, 'tokens');
  const size = tokens.length;
  const ids = new Map<string, number>();
  for (let id = 0; id < size; id++) {
    const text = tokens[id] as string;
    if (!ids.has(text)) ids.set(text, id);
  }
  const types = new Uint8Array(size).fill(tokenType.normal);
  const declaredTypes = readNumbers(metadata, 'token_type', size);
  const scores = new Float64Array(size);
  const declaredScores = readNumbers(metadata, 'scores', size);
  for (let id = 0; id < size; id++) {
    if (declaredTypes) types[id] = declaredTypes[id] as number;
    if (declaredScores) scores[id] = declaredScores[id] as number;
  }
  const readTokenId = (name: string) => readId(metadata, name, size);
  const idOrDefault = (name: string, id: number | undefined) =>
    readTokenId(name) ?? (id !== undefined && id < size ? id : undefined);
  const eosId = idOrDefault('eos_token_id', defaults.eosId);
  const endIds = findEndTokens(ids, [
    ...(readIds(metadata, 'end_token_ids') ?? []),
    eosId,
    readTokenId('eot_token_id'),
    readTokenId('eom_token_id'),
    readTokenId('fim_pad_token_id'),
    readTokenId('fim_rep_token_id'),
    readTokenId('fim_sep_token_id'),
  ]);
  // Converters sometimes mark these tokens as normal text, but a model that generates one means the control token.
  for (const name of [...endTokenTexts, ...fillInTheMiddleTokenTexts]) {
    const id = ids.get(name);
    if (id !== undefined && (endIds.has(id) || fillInTheMiddleTokenTexts.includes(name)))
      types[id] = tokenType.control;
  }
  // The converter of Gemma 4 marks these as text, so that they are printed. They delimit tool calls and channels, so
  // text of a message must not become one of them.
  for (const name of metadata.get('tokenizer.ggml.model') === 'gemma4' ? gemma4ControlTokens : []) {
    const id = ids.get(name);
    if (id !== undefined) types[id] = tokenType.control;
  }
  return {
    tokens,
    ids,
    types,
    scores,
    bosId: idOrDefault('bos_token_id', defaults.bosId),
    eosId,
    unknownId: idOrDefault('unknown_token_id', defaults.unknownId),
    endIds,
    fim: findFillInTheMiddleTokens(ids, readTokenId),
    addedTokenFlags: {
      stripsLeft: new Set(readIds(metadata, 'strips_left')),
      stripsRight: new Set(
        readIds(metadata, 'strips_right') ?? phi3RightStrippingTokens(metadata, ids, types),
      ),
      singleWords: new Set(readIds(metadata, 'single_words')),
    },
  };
}

const gemma4ControlTokens = [
  '<|channel>',
  '<channel|>',
  '<|tool_call>',
  '<tool_call|>',
  '<|tool_response>',
  '<tool_response|>',
  '<|"|>',
];

/**
 * GGUF does not store Hugging Face's `rstrip` flag. Only Phi-3 needs it: its template writes a line break after every
 * role, but the model was trained without one.
 */
function phi3RightStrippingTokens(
  metadata: Metadata,
  ids: ReadonlyMap<string, number>,
  types: Uint8Array,
): Iterable<number> {
  const name = metadata.get('general.name');
  const strippingIds = new Set<number>();
  if (typeof name !== 'string' || !/phi-?3/i.test(name)) return strippingIds;
  types.forEach((type, id) => {
    if (isSpecial(type) || type === tokenType.userDefined) strippingIds.add(id);
  });
  for (const text of ['<unk>', '<s>', '<|endoftext|>']) {
    const id = ids.get(text);
    if (id !== undefined) strippingIds.delete(id);
  }
  return strippingIds;
}

/** Whether tokens of this type have no text. */
export function isSpecial(type: number): boolean {
  return type === tokenType.control || type === tokenType.unknown;
}
