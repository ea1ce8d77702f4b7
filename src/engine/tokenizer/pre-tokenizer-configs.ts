import { ModelFileError } from '../formats/model-file.ts';
import type { SplitStep } from './word-splitter.ts';

/**
 * How a byte-level BPE tokenizer splits text into words (`tokenizer.ggml.pre`). No merge crosses a word boundary. The
 * expressions are those of the models' tokenizer.json files.
 */
export interface PreTokenizerConfig {
  /** Applied in order; each step splits the pieces of the previous one. */
  readonly steps: readonly (string | SplitStep)[];
  /** A word that equals a token becomes that token without merges. */
  readonly ignoreMerges?: true;
  /** Whether text starts with BOS by default; the metadata overrides this. */
  readonly addBos?: true;
}

const contraction = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const symbolRun = ' ?[^\\s\\p{L}\\p{N}]+';
const spaceRun = '\\s+(?!\\S)|\\s+';
const linesAndSpaces = `\\s*[\\r\\n]+|${spaceRun}`;
const leadingSymbol = '[^\\r\\n\\p{L}\\p{N}]?';
const word = `${leadingSymbol}\\p{L}+`;
const digit = '\\p{N}';
const upTo3 = `${digit}{1,3}`;

export const gpt2Expression = `'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+|${symbolRun}|${spaceRun}`;
/** GPT-4's cl100k with a given grouping of digits. */
const cl100k = (digits: string) => `${contraction}|${word}|${digits}|${symbolRun}[\\r\\n]*|${linesAndSpaces}`;
/** GPT-4o's o200k, which also splits words where lower case changes to upper case. */
const upper = '[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]';
const lower = '[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]';
const o200k = (suffix: string, digits: string) =>
  `${leadingSymbol}${upper}*${lower}+${suffix}|${leadingSymbol}${upper}+${lower}*${suffix}|` +
  `${digits}|${symbolRun}[\\r\\n/]*|${linesAndSpaces}`;
// Falcon's expression also has the backtick.
const asciiSymbols = '$+<=>\\^~|';
/** Cased letters as listed by DeepSeek LLM (Unicode 13, without some later blocks). */
const deepseekCased =
  '[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]';
const deepseekMarks = '[!-/:-~！-／：-～‘-‟　-。]';
/** Han, Hangul and most of U+0800 to U+4E00, as in DeepSeek's first tokenizers. */
const deepseekCjk = '[一-龥ࠀ-一가-퟿]+';

const llama3: PreTokenizerConfig = { steps: [cl100k(upTo3)], ignoreMerges: true, addBos: true };
const cl100kDigits3: PreTokenizerConfig = { steps: [cl100k(upTo3)] };
const qwen2: PreTokenizerConfig = { steps: [cl100k(digit)] };
const plainGpt2: PreTokenizerConfig = { steps: [gpt2Expression] };
const singleDigits: PreTokenizerConfig = { steps: [digit, gpt2Expression] };
const gpt4o: PreTokenizerConfig = { steps: [o200k(`${contraction}?`, upTo3)] };
const deepseekV3: PreTokenizerConfig = {
  steps: [
    upTo3,
    '[一-龥぀-ゟ゠-ヿ]+',
    '[!"#$%&\'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|' +
      ` ?[\\p{P}\\p{S}]+[\\r\\n]*|${linesAndSpaces}`,
  ],
};
const bloom: PreTokenizerConfig = { steps: [' ?[^(\\s|.,!?…。，、।۔،)]+'] };
const bailing: PreTokenizerConfig = {
  steps: [
    `'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|${spaceRun}`,
  ],
};

export const preTokenizerConfigs: Readonly<Record<string, PreTokenizerConfig>> = {
  default: { steps: [`[\\p{P}${asciiSymbols}]+`, gpt2Expression, `${digit}+`, '[0-9][0-9][0-9]'] },
  'gpt-2': plainGpt2,
  'phi-2': plainGpt2,
  mpt: plainGpt2,
  olmo: plainGpt2,
  jais: plainGpt2,
  trillion: plainGpt2,
  gigachat: plainGpt2,
  mellum: plainGpt2,
  exaone4: plainGpt2,
  'a.x-4.0': plainGpt2,
  'granite-docling': plainGpt2,
  'modern-bert': plainGpt2,
  'roberta-bpe': plainGpt2,
  'jina-es': plainGpt2,
  'jina-de': plainGpt2,
  'jina-v1-en': plainGpt2,
  'jina-v2-es': plainGpt2,
  'jina-v2-de': plainGpt2,
  'jina-v2-code': plainGpt2,
  starcoder: singleDigits,
  refact: singleDigits,
  'command-r': singleDigits,
  smollm: singleDigits,
  codeshell: singleDigits,
  exaone: singleDigits,
  'minerva-7b': singleDigits,
  mellum2: singleDigits,
  'llama-bpe': llama3,
  llama3,
  'llama-v3': llama3,
  falcon3: llama3,
  'falcon-h1': llama3,
  pixtral: llama3,
  lfm2: llama3,
  'midm-2.0': llama3,
  dbrx: cl100kDigits3,
  'smaug-bpe': cl100kDigits3,
  'chatglm-bpe': cl100kDigits3,
  glm4: cl100kDigits3,
  qwen2,
  'deepseek-r1-qwen': qwen2,
  stablelm2: qwen2,
  megrez: qwen2,
  hunyuan: qwen2,
  kormo: qwen2,
  'grok-2': qwen2,
  'solar-open': qwen2,
  qwen35: {
    steps: [
      `${contraction}|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|${digit}|` +
        ` ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|${linesAndSpaces}`,
    ],
  },
  'deepseek-llm': {
    steps: ['[\\r\\n]', `\\s?${deepseekCased}+`, `\\s?${deepseekMarks}+`, '\\s+$', deepseekCjk, `${digit}+`],
  },
  'deepseek-coder': {
    steps: ['[\\r\\n]', '\\s?\\p{L}+', '\\s?\\p{P}+', deepseekCjk, digit],
  },
  'deepseek-v3': deepseekV3,
  'hunyuan-dense': deepseekV3,
  'joyai-llm': deepseekV3,
  falcon: { steps: [`[\\p{P}${asciiSymbols}\`]+`, gpt2Expression, '[0-9][0-9][0-9]'] },
  tekken: { steps: [o200k('', digit)], ignoreMerges: true, addBos: true },
  'gpt-4o': gpt4o,
  llama4: gpt4o,
  kanana2: gpt4o,
  'minimax-m2': gpt4o,
  chameleon: {
    steps: [
      '<sentinel:[0-9]+>',
      'IMGIMG[A-I]{1,4}Z',
      '[\\t\\n]| {4}| {2}',
      digit,
      '[\\p{P}!-/:-@\\[-`{-~]',
      gpt2Expression,
    ],
    addBos: true,
  },
  // Groups of three digits, counted from the right: the first group of a run has the remainder.
  superbpe: { steps: [`${digit}+`, '(?<![0-9])[0-9]{1,3}(?=(?:[0-9]{3})*(?![0-9]))|[0-9]{3}'] },
  'seed-coder': {
    steps: [`${contraction}|${word}|${digit}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|${linesAndSpaces}`],
  },
  bailingmoe: bailing,
  bailingmoe2: bailing,
  'llada-moe': bailing,
  bloom,
  'gpt3-finnish': bloom,
  'poro-chat': bloom,
  viking: { steps: [...bloom.steps, digit] },
};

export function findPreTokenizerConfig(name: string): PreTokenizerConfig {
  const found = Object.hasOwn(preTokenizerConfigs, name) ? preTokenizerConfigs[name] : undefined;
  if (!found) {
    throw new ModelFileError(
      'unsupported_tokenizer',
      `unknown pre-tokenizer '${name}' (supported: ${Object.keys(preTokenizerConfigs).join(', ')})`,
    );
  }
  return found;
}
