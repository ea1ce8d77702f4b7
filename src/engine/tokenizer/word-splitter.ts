import { ClassPattern } from './class-pattern.ts';

/** What happens to the matches of a split's expression. The names are those of tokenizer.json in snake case. */
export type SplitBehavior =
  | 'isolated'
  | 'removed'
  | 'merged_with_previous'
  | 'merged_with_next'
  | 'contiguous';

export interface SplitStep {
  readonly expression: string;
  /** Default 'isolated': every match and every gap between matches is a piece. */
  readonly behavior?: SplitBehavior;
  /** Swaps matches and gaps. */
  readonly invert?: boolean;
}

/** Splits texts into words and returns their positions. The words cover the text unless a split removes something. */
export class WordSplitter {
  readonly #steps: readonly { pattern: ClassPattern; behavior: SplitBehavior; invert: boolean }[];

  /**
   * @param steps applied in order; each splits the pieces of the previous one
   * @throws ExpressionError for an expression that JavaScript cannot express
   */
  constructor(steps: readonly (string | SplitStep)[]) {
    this.#steps = steps.map((step) => {
      const {
        expression,
        behavior = 'isolated',
        invert = false,
      } = typeof step === 'string' ? { expression: step } : step;
      return { pattern: new ClassPattern(expression), behavior, invert };
    });
  }

  /** Start and end of each word, in order, in code units. */
  split(text: string): number[] {
    let spans: number[] | undefined;
    let codePoints = text.length;
    for (const { pattern, behavior, invert } of this.#steps) {
      const projected = pattern.project(text);
      codePoints = projected.length;
      const nextSpans: number[] = [];
      const splitSpan =
        behavior === 'isolated'
          ? (start: number, end: number) => isolate(pattern, projected, start, end, nextSpans)
          : (start: number, end: number) => {
              const found = listPieces(pattern, projected, start, end, invert);
              for (const piece of mergePieces(found, behavior)) nextSpans.push(piece.start, piece.end);
            };
      if (!spans) {
        if (projected !== '') splitSpan(0, projected.length);
      } else {
        for (let i = 0; i < spans.length; i += 2) splitSpan(spans[i] as number, spans[i + 1] as number);
      }
      spans = nextSpans;
    }
    spans ??= text === '' ? [] : [0, text.length];
    return codePoints === text.length ? spans : toCodeUnits(text, spans);
  }
}

function isolate(pattern: ClassPattern, text: string, from: number, to: number, spans: number[]): void {
  // Avoid a slice of the whole text: it would copy megabytes.
  const piece = from === 0 && to === text.length ? text : text.slice(from, to);
  let last = from;
  const found = pattern.findMatches(piece);
  for (let i = 0; i < found.length; i += 2) {
    const start = from + (found[i] as number);
    if (start > last) spans.push(last, start);
    last = from + (found[i + 1] as number);
    spans.push(start, last);
  }
  if (last < to) spans.push(last, to);
}

interface Piece {
  start: number;
  end: number;
  /** Whether the piece is a match and not a gap. */
  readonly found: boolean;
}

function listPieces(pattern: ClassPattern, text: string, from: number, to: number, invert: boolean): Piece[] {
  const list: Piece[] = [];
  let last = from;
  const found = pattern.findMatches(text.slice(from, to));
  for (let i = 0; i < found.length; i += 2) {
    const start = from + (found[i] as number);
    if (start > last) list.push({ start: last, end: start, found: invert });
    last = from + (found[i + 1] as number);
    list.push({ start, end: last, found: !invert });
  }
  if (last < to) list.push({ start: last, end: to, found: invert });
  return list;
}

function mergePieces(list: readonly Piece[], behavior: SplitBehavior): readonly Piece[] {
  if (behavior === 'isolated') return list;
  if (behavior === 'removed') return list.filter((piece) => !piece.found);
  const result: Piece[] = [];
  let previous: Piece | undefined;
  for (const piece of list) {
    const last = result.at(-1);
    // A match is merged with one adjacent gap. Consecutive matches stay separate, except for 'contiguous'.
    const joinsPrevious =
      previous !== undefined &&
      (behavior === 'contiguous'
        ? piece.found === previous.found
        : behavior === 'merged_with_previous'
          ? piece.found && !previous.found
          : previous.found && !piece.found);
    if (last && joinsPrevious) last.end = piece.end;
    else result.push({ ...piece });
    previous = piece;
  }
  return result;
}

function toCodeUnits(text: string, spans: readonly number[]): number[] {
  let point = 0;
  let unit = 0;
  return spans.map((at) => {
    for (; point < at; point++) unit += (text.codePointAt(unit) as number) > 0xffff ? 2 : 1;
    return unit;
  });
}
