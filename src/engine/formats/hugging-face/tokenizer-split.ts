import type { MetadataArray, MetadataScalar } from '../model-file.ts';
import { gpt2Expression, preTokenizerConfigs } from '../../tokenizer/pre-tokenizer-configs.ts';
import {
  type TokenizerKind,
  type TokenizerStep,
  type TokenizerJson,
  createUnsupportedError,
} from './tokenizer-json.ts';

type Entry = readonly [name: string, value: MetadataScalar | MetadataArray];

/** Metadata of the normalizers and pre-tokenizers that the tokenizer kind does not imply. */
export function preTokenizerEntries(json: TokenizerJson, kind: TokenizerKind): Entry[] {
  if (kind === 'gpt2') return byteLevelEntries(json);
  if (kind === 'bert') return wordPieceEntries(json);
  const spacePrefix = kind === 'llama' ? detectSpacePrefix(json) : undefined;
  if (spacePrefix !== undefined) return [['tokenizer.ggml.add_space_prefix', spacePrefix]];
  return [
    ...stepEntries('normalizer', json.normalizers),
    ...stepEntries('pre_tokenizer', json.preTokenizers, true),
  ];
}

/** Steps that have no GGUF key, as JSON. */
function stepEntries(name: string, steps: readonly TokenizerStep[], always = false): Entry[] {
  if (steps.length === 0 && !always) return [];
  return [[`tokenizer.hugging_face.${name}`, JSON.stringify(steps)]];
}

/** Pre-tokenizer names of GGUF to match; of those with the same expressions, only the best known. */
const ggufPreTokenizerNames = [
  'gpt-2',
  'smollm',
  'qwen2',
  'llama-bpe',
  'dbrx',
  'gpt-4o',
  'tekken',
  'qwen35',
  'seed-coder',
  'bailingmoe',
  'deepseek-v3',
  'deepseek-llm',
  'deepseek-coder',
  'bloom',
];

function byteLevelEntries(json: TokenizerJson): Entry[] {
  const { normalizers, preTokenizers: steps, model } = json;
  if (normalizers.some(({ type }) => type === 'ByteLevel')) {
    throw createUnsupportedError('a ByteLevel normalizer');
  }
  const onlyNfc = normalizers.length === 1 && normalizers[0]?.type === 'NFC';
  const entries: Entry[] = onlyNfc
    ? [['tokenizer.ggml.normalizer.nfc', true]]
    : stepEntries('normalizer', normalizers);
  const ignoreMerges = model['ignore_merges'] === true;
  const expressions = JSON.stringify(steps.flatMap(splitExpression));
  const matchingNames = ggufPreTokenizerNames.filter(
    (name) => JSON.stringify(preTokenizerConfigs[name]?.steps) === expressions,
  );
  const ignoresMerges = (name: string | undefined) =>
    name !== undefined && preTokenizerConfigs[name]?.ignoreMerges === true;
  const name = matchingNames.find((found) => ignoresMerges(found) === ignoreMerges) ?? matchingNames[0];
  if (name === undefined) entries.push(...stepEntries('pre_tokenizer', steps, true));
  else entries.push(['tokenizer.ggml.pre', name]);
  if (ignoresMerges(name) !== ignoreMerges)
    entries.push(['tokenizer.hugging_face.ignore_merges', ignoreMerges]);
  return entries;
}

/** The regular expression of a step that isolates its matches; the JSON of any other step. */
function splitExpression(step: TokenizerStep): string[] {
  const found = (expression: string) => [expression];
  if (step.type === 'ByteLevel' && step['add_prefix_space'] !== true) {
    return step['use_regex'] === false ? [] : found(gpt2Expression);
  }
  if (step.type === 'Digits') return found(step['individual_digits'] === true ? '\\p{N}' : '\\p{N}+');
  const { Regex } = (step['pattern'] ?? {}) as { Regex?: unknown };
  // When an expression matches all text, keeping the matches and removing the rest is the same.
  const isolates =
    (step['behavior'] === 'Isolated' && step['invert'] !== true) ||
    (step['behavior'] === 'Removed' && step['invert'] === true);
  if (step.type !== 'Split' || typeof Regex !== 'string' || !isolates) return found(JSON.stringify(step));
  // Files write line breaks literally or escaped.
  return found(Regex.replaceAll('\r', '\\r').replaceAll('\n', '\\n'));
}

function wordPieceEntries(json: TokenizerJson): Entry[] {
  const [pre, ...more] = json.preTokenizers;
  if (pre?.type !== 'BertPreTokenizer' || more.length > 0) {
    const found = json.preTokenizers.map(({ type }) => type).join(', ') || 'none';
    throw createUnsupportedError(`WordPiece with the pre-tokenizer ${found} (supported: BertPreTokenizer)`);
  }
  const bert = json.normalizers.find(({ type }) => type === 'BertNormalizer') ?? {
    type: 'none',
    lowercase: false,
    strip_accents: false,
    clean_text: false,
    handle_chinese_chars: false,
  };
  const lowerCase = bert['lowercase'] !== false;
  const stripAccents = bert['strip_accents'];
  return [
    ['tokenizer.ggml.normalizer.lowercase', lowerCase],
    ['tokenizer.ggml.normalizer.strip_accents', typeof stripAccents === 'boolean' ? stripAccents : lowerCase],
    ['tokenizer.hugging_face.clean', bert['clean_text'] !== false],
    ['tokenizer.hugging_face.part_han', bert['handle_chinese_chars'] !== false],
    ...stepEntries(
      'normalizer',
      json.normalizers.filter((step) => step !== bert),
    ),
  ];
}

const spaceMark = '▁';

/**
 * Whether the tokenizer puts a space before every text, for the normalizers of Llama (`Prepend`, `Replace`) and Gemma
 * (`Replace`); undefined for any other normalizers.
 */
function detectSpacePrefix(json: TokenizerJson): boolean | undefined {
  const [first, ...rest] = json.normalizers;
  const prepends = first?.type === 'Prepend' && first['prepend'] === spaceMark;
  const [replace, ...more] = prepends ? rest : json.normalizers;
  const replacesSpaces =
    replace?.type === 'Replace' &&
    patternString(replace) === ' ' &&
    replace['content'] === spaceMark &&
    more.length === 0;
  // Gemma also splits at spaces, which has no effect because none is left.
  const splitsFurther = json.preTokenizers.some(
    (step) => step.type !== 'Split' || patternString(step) !== ' ',
  );
  return replacesSpaces && !splitsFurther ? prepends : undefined;
}

const patternString = (step: TokenizerStep) => (step['pattern'] as { String?: unknown } | undefined)?.String;
