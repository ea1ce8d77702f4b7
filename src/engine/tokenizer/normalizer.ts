import { CharacterMap } from './character-map.ts';
import { patternOf, withStepError, type TokenizerStep, createUnsupportedStepError } from './steps.ts';
import { WordSplitter } from './word-splitter.ts';

type Normalize = (text: string) => string;

const stepKind = 'normalizer';

/** Normalizers by their type in tokenizer.json. */
const normalizerFactories: Readonly<Record<string, (step: TokenizerStep) => Normalize>> = {
  NFC: () => (text) => text.normalize('NFC'),
  NFD: () => (text) => text.normalize('NFD'),
  NFKC: () => (text) => text.normalize('NFKC'),
  NFKD: () => (text) => text.normalize('NFKD'),
  Lowercase: () => lowerCase,
  StripAccents: () => (text) => text.replaceAll(/\p{M}/gu, ''),
  Prepend: (step) => (text) => (text === '' ? text : step['prepend'] + text),
  Strip(step) {
    const left = step['strip_left'] !== false;
    const right = step['strip_right'] !== false;
    return (text) => strip(text, left, right);
  },
  Replace(step) {
    const { content } = step;
    const pattern = patternOf(step);
    if (pattern === undefined || typeof content !== 'string')
      throw createUnsupportedStepError(stepKind, step);
    return createReplace(step, pattern, content);
  },
  Precompiled(step) {
    const map = step['precompiled_charsmap'];
    // Files without a map have null.
    if (typeof map !== 'string') return (text) => text;
    const table = new CharacterMap(Uint8Array.from(atob(map), (char) => char.charCodeAt(0)));
    return (text) => table.apply(text);
  },
};

/** Creates a function that runs the normalizers of tokenizer.json. */
export function createNormalizer(steps: readonly TokenizerStep[]): Normalize {
  const normalizers = steps.map((step) => {
    const create = Object.hasOwn(normalizerFactories, step.type) ? normalizerFactories[step.type] : undefined;
    if (!create) throw createUnsupportedStepError(stepKind, step);
    return create(step);
  });
  return (text) => normalizers.reduce((changed, normalize) => normalize(changed), text);
}

/** Lower case without JavaScript's final sigma, because the tokenizers library maps each character by itself. */
export function lowerCase(text: string): string {
  return text.replaceAll('Σ', 'σ').toLowerCase();
}

/** Strips white space. A regular expression would take quadratic time on long runs of spaces. */
function strip(text: string, left: boolean, right: boolean): string {
  const isSpace = (at: number) => /\p{White_Space}/u.test(text.charAt(at));
  let start = 0;
  let end = text.length;
  if (left) while (start < end && isSpace(start)) start++;
  if (right) while (end > start && isSpace(end - 1)) end--;
  return text.slice(start, end);
}

function createReplace(step: TokenizerStep, pattern: string, content: string): Normalize {
  const plain = (step['pattern'] as { String?: string }).String;
  if (plain !== undefined)
    return plain === '' ? (text) => text : (text) => text.replaceAll(plain, () => content);
  const allPieces = withStepError(
    stepKind,
    step,
    () => new WordSplitter([{ expression: pattern, behavior: 'isolated' }]),
  );
  const keptPieces = new WordSplitter([{ expression: pattern, behavior: 'removed' }]);
  return (text) => {
    const keptStarts = new Set<number>();
    const rest = keptPieces.split(text);
    for (let i = 0; i < rest.length; i += 2) keptStarts.add(rest[i] as number);
    const all = allPieces.split(text);
    let result = '';
    for (let i = 0; i < all.length; i += 2) {
      const start = all[i] as number;
      result += keptStarts.has(start) ? text.slice(start, all[i + 1]) : content;
    }
    return result;
  };
}
