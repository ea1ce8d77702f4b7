import { isRecord } from '../../../util/json.ts';
import type { TokenizerStep } from '../../tokenizer/steps.ts';
import { ModelFileError } from '../model-file.ts';

export type { TokenizerStep } from '../../tokenizer/steps.ts';

/** `tokenizer.ggml.model`. */
export type TokenizerKind = 'gpt2' | 'llama' | 'bert' | 't5';

export interface AddedToken {
  readonly id: number;
  readonly content: string;
  readonly special: boolean;
  readonly lstrip: boolean;
  readonly rstrip: boolean;
  readonly single_word: boolean;
}

export interface TokenizerJson {
  readonly model: TokenizerStep;
  readonly addedTokens: readonly AddedToken[];
  /** Nested sequences are flattened; empty when the file has null. */
  readonly normalizers: readonly TokenizerStep[];
  readonly preTokenizers: readonly TokenizerStep[];
  readonly processors: readonly TokenizerStep[];
  readonly decoders: readonly TokenizerStep[];
}

export function asObject(value: unknown): Readonly<Record<string, unknown>> {
  return isRecord(value) ? value : {};
}

export function createInvalidError(what: string): ModelFileError {
  return new ModelFileError(
    'invalid_tokenizer',
    `tokenizer.json: ${what}; the file is corrupt, download it again`,
  );
}

export function createUnsupportedError(what: string): ModelFileError {
  return new ModelFileError(
    'unsupported_tokenizer',
    `tokenizer.json: ${what}; use a GGUF file of the model instead`,
  );
}

/** Checks the structure of a parsed tokenizer.json. The readers of the vocabulary and merges check those. */
export function readTokenizerJson(value: unknown): TokenizerJson {
  if (!isRecord(value))
    throw createInvalidError(`expected an object, found ${value === null ? 'null' : typeof value}`);
  const { model } = value;
  if (!isRecord(model)) throw createInvalidError("'model' must be an object");
  // Files from before 2021 have no type.
  const type = model['type'] ?? (Array.isArray(model['merges']) ? 'BPE' : undefined);
  if (typeof type !== 'string') throw createInvalidError('\'model.type\' must be a string such as "BPE"');
  return {
    model: { ...model, type },
    addedTokens: readAddedTokens(value['added_tokens'] ?? []),
    normalizers: flatten(value['normalizer'], 'normalizer', 'normalizers'),
    preTokenizers: flatten(value['pre_tokenizer'], 'pre_tokenizer', 'pretokenizers'),
    processors: flatten(value['post_processor'], 'post_processor', 'processors'),
    decoders: flatten(value['decoder'], 'decoder', 'decoders'),
  };
}

function readAddedTokens(value: unknown): readonly AddedToken[] {
  if (!Array.isArray(value)) throw createInvalidError("'added_tokens' must be an array");
  return value.map((entry: unknown, index) => {
    const { id, content, ...flags } = asObject(entry);
    if (typeof id !== 'number' || !Number.isInteger(id) || id < 0 || typeof content !== 'string') {
      throw createInvalidError(`'added_tokens[${index}]' must have an 'id' and a 'content'`);
    }
    return {
      id,
      content,
      special: flags['special'] === true,
      lstrip: flags['lstrip'] === true,
      rstrip: flags['rstrip'] === true,
      single_word: flags['single_word'] === true,
    };
  });
}

function flatten(value: unknown, name: string, members: string): readonly TokenizerStep[] {
  if (value === undefined || value === null) return [];
  if (!isRecord(value) || typeof value['type'] !== 'string') {
    throw createInvalidError(`'${name}' must be null or an object with a 'type'`);
  }
  if (value['type'] !== 'Sequence') return [value as TokenizerStep];
  const inner = value[members];
  if (!Array.isArray(inner)) throw createInvalidError(`'${name}.${members}' must be an array`);
  return inner.flatMap((step: unknown, index) => flatten(step, `${name}.${members}[${index}]`, members));
}
