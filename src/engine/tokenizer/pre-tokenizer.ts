import { encodeByteAlphabet } from './byte-alphabet.ts';
import { spaceMark } from './pieces.ts';
import { gpt2Expression } from './pre-tokenizer-configs.ts';
import { patternOf, withStepError, type TokenizerStep, createUnsupportedStepError } from './steps.ts';
import { type SplitStep, type SplitBehavior, WordSplitter } from './word-splitter.ts';

/** Splits a text into the words that a text model encodes one by one. */
export interface PreTokenizer {
  /** Whether words are written in the byte alphabet, which is needed only for splits inside a character. */
  readonly usesByteAlphabet?: boolean;
  /** @param isPromptStart whether the text starts the prompt */
  forEachWord(text: string, isPromptStart: boolean, word: (word: string) => void): void;
}

/** Yields the words of a splitter unchanged. */
export function createSplitPreTokenizer(splitter: WordSplitter): PreTokenizer {
  return {
    forEachWord(text, _first, word) {
      const spans = splitter.split(text);
      for (let i = 0; i < spans.length; i += 2) word(text.slice(spans[i], spans[i + 1]));
    },
  };
}

type Stage = (pieces: readonly string[], isPromptStart: boolean) => readonly string[];

const stepKind = 'pre-tokenizer';
const behaviors: Readonly<Record<string, SplitBehavior>> = {
  Isolated: 'isolated',
  Removed: 'removed',
  MergedWithPrevious: 'merged_with_previous',
  MergedWithNext: 'merged_with_next',
  Contiguous: 'contiguous',
};

const behaviorOf = ({ behavior = 'Isolated' }: TokenizerStep): SplitBehavior | undefined =>
  typeof behavior === 'string' ? behaviors[behavior] : undefined;

/** Splits by pre-tokenizer type of tokenizer.json; undefined when the step is invalid. */
const splitFactories: Readonly<Record<string, (step: TokenizerStep) => SplitStep | undefined>> = {
  Split(step) {
    const expression = patternOf(step);
    const behavior = behaviorOf(step);
    if (expression === undefined || !behavior) return undefined;
    return { expression, behavior, invert: step['invert'] === true };
  },
  Digits: (step) => ({ expression: step['individual_digits'] === true ? '\\p{N}' : '\\p{N}+' }),
  Punctuation(step) {
    const behavior = behaviorOf(step);
    return behavior && { expression: '[[:punct:]]', behavior };
  },
  Whitespace: () => ({ expression: '\\w+|[^\\w\\s]+', behavior: 'removed', invert: true }),
  WhitespaceSplit: () => ({ expression: '\\s', behavior: 'removed' }),
};

/** Runs the pre-tokenizers of tokenizer.json in order. */
export function createStepPreTokenizer(steps: readonly TokenizerStep[]): PreTokenizer {
  const stages: Stage[] = [];
  let pending: SplitStep[] = [];
  let usesByteAlphabet = false;
  const flush = () => {
    if (pending.length === 0) return;
    stages.push(createSplitStage(new WordSplitter(pending)));
    pending = [];
  };
  for (const step of steps) {
    if (step.type === 'Metaspace') {
      flush();
      stages.push(...createMetaspaceStages(step));
      continue;
    }
    if (step.type === 'ByteLevel') {
      if (step['add_prefix_space'] === true) {
        flush();
        stages.push((pieces) => pieces.map((piece) => (piece.startsWith(' ') ? piece : ` ${piece}`)));
      }
      if (step['use_regex'] !== false) pending.push({ expression: gpt2Expression });
      // The following steps see the byte alphabet.
      usesByteAlphabet = step !== steps.at(-1);
      if (usesByteAlphabet) {
        flush();
        stages.push((pieces) => pieces.map(encodeByteAlphabet));
      }
      continue;
    }
    const split = Object.hasOwn(splitFactories, step.type) ? splitFactories[step.type]?.(step) : undefined;
    if (!split) throw createUnsupportedStepError(stepKind, step);
    withStepError(stepKind, step, () => new WordSplitter([split]));
    pending.push(split);
  }
  flush();
  return {
    usesByteAlphabet,
    forEachWord(text, isPromptStart, word) {
      let pieces: readonly string[] = [text];
      for (const stage of stages) pieces = stage(pieces, isPromptStart);
      for (const piece of pieces) word(piece);
    },
  };
}

/** Metaspace: replaces spaces by a visible character and prefixes the text or every word with it. */
function createMetaspaceStages(step: TokenizerStep): readonly Stage[] {
  const replacement = typeof step['replacement'] === 'string' ? step['replacement'] : spaceMark;
  // Older files have `add_prefix_space` instead.
  const scheme = step['prepend_scheme'] ?? (step['add_prefix_space'] === false ? 'never' : 'always');
  const stages: Stage[] = [
    (pieces, isPromptStart) =>
      pieces.map((piece, index) => {
        const text = piece.replaceAll(' ', replacement);
        const needsPrefix = scheme === 'always' || (scheme === 'first' && isPromptStart && index === 0);
        return needsPrefix && !text.startsWith(replacement) ? replacement + text : text;
      }),
  ];
  if (step['split'] !== false) {
    stages.push(
      createSplitStage(new WordSplitter([{ expression: replacement, behavior: 'merged_with_next' }])),
    );
  }
  return stages;
}

function createSplitStage(splitter: WordSplitter): Stage {
  const words = createSplitPreTokenizer(splitter);
  return (pieces, isPromptStart) => {
    const splitPieces: string[] = [];
    for (const piece of pieces) words.forEachWord(piece, isPromptStart, (word) => splitPieces.push(word));
    return splitPieces;
  };
}

/** SentencePiece in GGUF files: yields the whole text as one word, with spaces written as `▁`. */
export function createSpaceMarkingPreTokenizer(spacePrefix: boolean): PreTokenizer {
  return {
    // Not `spaceMark + text.replaceAll(...)`: V8 would create a rope and flatten it for every search.
    forEachWord: (text, _first, word) => word(((spacePrefix ? ' ' : '') + text).replaceAll(' ', spaceMark)),
  };
}

/** Like `createSpaceMarkingPreTokenizer`, but trims spaces and collapses runs of them to one. */
export function createSpaceCollapsingPreTokenizer(spacePrefix: boolean): PreTokenizer {
  return {
    forEachWord(text, _first, word) {
      const single = text.replaceAll(/ +/g, spaceMark);
      const start = text.startsWith(' ') ? 1 : 0;
      let end = single.length;
      while (end > start && single.endsWith(spaceMark, end)) end--;
      if (end > start) word((spacePrefix ? spaceMark : '') + single.slice(start, end));
    },
  };
}
