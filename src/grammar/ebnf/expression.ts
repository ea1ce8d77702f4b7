import { type CodePoints, codePointsOf, normalizeRanges } from './code-points.ts';

/** A language: the body of a rule, or the meaning of a regular expression. */
export type Expression =
  | { readonly kind: 'text'; readonly text: string }
  /** One character of a set. */
  | { readonly kind: 'set'; readonly set: CodePoints }
  | { readonly kind: 'sequence'; readonly parts: readonly Expression[] }
  /** Without options it matches nothing. */
  | { readonly kind: 'choice'; readonly options: readonly Expression[] }
  /** `max` may be Infinity. */
  | { readonly kind: 'repeat'; readonly of: Expression; readonly min: number; readonly max: number }
  | { readonly kind: 'rule'; readonly name: string }
  /** A length mark at the start of a string; see `LengthBounds`. */
  | { readonly kind: 'mark'; readonly index: number }
  | FreeText;

/**
 * Free text. After a trigger its rule must follow, then the text is free again. The text ends after one of the stops,
 * or anywhere without stops. May only be the complete body of a rule.
 */
export interface FreeText {
  readonly kind: 'free';
  readonly triggers: readonly { readonly text: string; readonly rule: string }[];
  readonly stops: readonly string[];
  /** Whether text may continue after a trigger's rule. */
  readonly repeats: boolean;
}

export const text = (value: string): Expression => ({ kind: 'text', text: value });
export const rule = (name: string): Expression => ({ kind: 'rule', name });
export const set = (ranges: CodePoints): Expression => ({ kind: 'set', set: normalizeRanges(ranges) });
/** One of the characters in a text. */
export const oneOf = (characters: string): Expression => ({ kind: 'set', set: codePointsOf(characters) });
export const range = (first: string, last: string): Expression =>
  set([[first.codePointAt(0) ?? 0, last.codePointAt(0) ?? 0]]);

export const never: Expression = { kind: 'choice', options: [] };
export const empty: Expression = { kind: 'text', text: '' };

export function sequence(...parts: readonly Expression[]): Expression {
  const flat = parts.flatMap((part) => (part.kind === 'sequence' ? part.parts : [part]));
  const nonEmpty = flat.filter((part) => part.kind !== 'text' || part.text !== '');
  if (nonEmpty.length === 0) return empty;
  return nonEmpty.length === 1 ? (nonEmpty[0] as Expression) : { kind: 'sequence', parts: nonEmpty };
}

export function choice(...options: readonly Expression[]): Expression {
  const flat = options.flatMap((option) => (option.kind === 'choice' ? option.options : [option]));
  return flat.length === 1 ? (flat[0] as Expression) : { kind: 'choice', options: flat };
}

export function repeat(of: Expression, min: number, max = Number.POSITIVE_INFINITY): Expression {
  if (max === 0) return empty;
  return min === 1 && max === 1 ? of : { kind: 'repeat', of, min, max };
}

export const optional = (of: Expression): Expression => repeat(of, 0, 1);
