import { toAlphabet } from './byte-alphabet.ts';
import { mark } from './pieces.ts';
import { gpt2 } from './pre-tokenizers.ts';
import { patternOf, readingStep, type Step, unsupportedStep } from './steps.ts';
import { type Split, type SplitBehavior, WordSplitter } from './word-splitter.ts';

/** Splits a text into the words that a text model encodes one by one. */
export interface Words {
  /** Whether words are written in the byte alphabet, which is needed only for splits inside a character. */
  readonly inBytes?: boolean;
  /** @param isPromptStart whether the text starts the prompt */
  visit(text: string, first: boolean, word: (word: string) => void): void;
}

/** Yields the words of a splitter unchanged. */
export function splitWords(splitter: WordSplitter): Words {
  return {
    visit(text, _first, word) {
      const spans = splitter.split(text);
      for (let i = 0; i < spans.length; i += 2) word(text.slice(spans[i], spans[i + 1]));
    },
  };
}

type Stage = (pieces: readonly string[], first: boolean) => readonly string[];

const what = 'pre-tokenizer';
const behaviors: Readonly<Record<string, SplitBehavior>> = {
  Isolated: 'isolated',
  Removed: 'removed',
  MergedWithPrevious: 'merged_with_previous',
  MergedWithNext: 'merged_with_next',
  Contiguous: 'contiguous',
};

const behaviorOf = ({ behavior = 'Isolated' }: Step): SplitBehavior | undefined =>
  typeof behavior === 'string' ? behaviors[behavior] : undefined;

/** Splits by pre-tokenizer type of tokenizer.json; undefined when the step is invalid. */
const splits: Readonly<Record<string, (step: Step) => Split | undefined>> = {
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
export function stepWords(steps: readonly Step[]): Words {
  const stages: Stage[] = [];
  let pending: Split[] = [];
  let inBytes = false;
  const flush = () => {
    if (pending.length === 0) return;
    stages.push(cutting(new WordSplitter(pending)));
    pending = [];
  };
  for (const step of steps) {
    if (step.type === 'Metaspace') {
      flush();
      stages.push(...metaspace(step));
      continue;
    }
    if (step.type === 'ByteLevel') {
      if (step['add_prefix_space'] === true) {
        flush();
        stages.push((pieces) => pieces.map((piece) => (piece.startsWith(' ') ? piece : ` ${piece}`)));
      }
      if (step['use_regex'] !== false) pending.push({ expression: gpt2 });
      // The following steps see the byte alphabet.
      inBytes = step !== steps.at(-1);
      if (inBytes) {
        flush();
        stages.push((pieces) => pieces.map(toAlphabet));
      }
      continue;
    }
    const split = Object.hasOwn(splits, step.type) ? splits[step.type]?.(step) : undefined;
    if (!split) throw unsupportedStep(what, step);
    readingStep(what, step, () => new WordSplitter([split]));
    pending.push(split);
  }
  flush();
  return {
    inBytes,
    visit(text, first, word) {
      let pieces: readonly string[] = [text];
      for (const stage of stages) pieces = stage(pieces, first);
      for (const piece of pieces) word(piece);
    },
  };
}

/** Metaspace: replaces spaces by a visible character and prefixes the text or every word with it. */
function metaspace(step: Step): readonly Stage[] {
  const sign = typeof step['replacement'] === 'string' ? step['replacement'] : mark;
  // Older files have `add_prefix_space` instead.
  const scheme = step['prepend_scheme'] ?? (step['add_prefix_space'] === false ? 'never' : 'always');
  const stages: Stage[] = [
    (pieces, first) =>
      pieces.map((piece, index) => {
        const text = piece.replaceAll(' ', sign);
        const wanted = scheme === 'always' || (scheme === 'first' && first && index === 0);
        return wanted && !text.startsWith(sign) ? sign + text : text;
      }),
  ];
  if (step['split'] !== false) {
    stages.push(cutting(new WordSplitter([{ expression: sign, behavior: 'merged_with_next' }])));
  }
  return stages;
}

function cutting(splitter: WordSplitter): Stage {
  const words = splitWords(splitter);
  return (pieces, first) => {
    const finer: string[] = [];
    for (const piece of pieces) words.visit(piece, first, (word) => finer.push(word));
    return finer;
  };
}

/** SentencePiece in GGUF files: yields the whole text as one word, with spaces written as `▁`. */
export function markedWords(spacePrefix: boolean): Words {
  return {
    // Not `spaceMark + text.replaceAll(...)`: V8 would create a rope and flatten it for every search.
    visit: (text, _first, word) => word(((spacePrefix ? ' ' : '') + text).replaceAll(' ', mark)),
  };
}

/** Like `createSpaceMarkingPreTokenizer`, but trims spaces and collapses runs of them to one. */
export function tidyWords(spacePrefix: boolean): Words {
  return {
    visit(text, _first, word) {
      const single = text.replaceAll(/ +/g, mark);
      const start = text.startsWith(' ') ? 1 : 0;
      let end = single.length;
      while (end > start && single.endsWith(mark, end)) end--;
      if (end > start) word((spacePrefix ? mark : '') + single.slice(start, end));
    },
  };
}
