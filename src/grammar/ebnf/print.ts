import { type CodePoints, intersection } from './code-points.ts';
import type { Expression, FreeText } from './expression.ts';
import { type ByteRange, utf8Ranges } from './utf8-ranges.ts';

const ascii: CodePoints = [[0, 0x7f]];
const beyondAscii: CodePoints = [
  [0x80, 0xd7ff],
  [0xe000, 0x10ffff],
];

/** An expression as XGrammar's EBNF writes it. */
export function print(expression: Expression): string {
  switch (expression.kind) {
    case 'text':
      return quote(expression.text);
    case 'set':
      return printSet(expression.set);
    case 'sequence':
      return `(${expression.parts.map(print).join(' ')})`;
    case 'choice':
      return `(${expression.options.map(print).join(' | ')})`;
    case 'rule':
      return expression.name;
    case 'repeat': {
      const inner = print(expression.of);
      const of = expression.of.kind === 'repeat' ? `(${inner})` : inner;
      const { min, max } = expression;
      if (min === 0 && max === 1) return `(${of})?`;
      if (max !== Number.POSITIVE_INFINITY) return `${of}{${min},${max}}`;
      // Only `*` over a class is a loop of its own; `+` and `{m,}` become rules.
      return min === 0 ? `${of}*` : min === 1 ? `(${of} ${of}*)` : `(${of}{${min}} ${of}*)`;
    }
    case 'free':
      return printFreeText(expression);
  }
}

function printFreeText({ triggers, stops, again }: FreeText): string {
  const parts = triggers.map((trigger) => `(${quote(trigger.text)}, ${trigger.rule})`);
  if (stops.length === 0) parts.push('stop_eos=true');
  else parts.push('stop_eos=false', `stop_str=(${stops.map(quote).join(', ')})`);
  parts.push(`loop_after_dispatch=${again}`);
  return `TagDispatch(${parts.join(', ')})`;
}

export function quote(text: string): string {
  let written = '"';
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0;
    if (character === '"' || character === '\\') written += `\\${character}`;
    else if (code >= 0x20 && code < 0x7f) written += character;
    else written += `\\U${code.toString(16).padStart(8, '0')}`;
  }
  return `${written}"`;
}

/**
 * XGrammar 0.1.27 reads a class as bytes (of characters beyond ASCII it takes the lowest eight bits), and a negated
 * class lets bytes through that are no UTF-8. So what lies beyond ASCII is spelled in bytes.
 */
function printSet(set: CodePoints): string {
  const low = intersection(set, ascii);
  const high = intersection(set, beyondAscii);
  const all =
    high.length === beyondAscii.length && high.every(([first, last], index) => same(first, last, index));
  const options = all ? [beyondAsciiRule] : spell(high);
  if (low.length > 0) options.unshift(`[${low.map(printRange).join('')}]`);
  return options.length === 1 && !options[0]?.includes(' ')
    ? (options[0] as string)
    : `(${options.join(' | ')})`;
}

const spell = (high: CodePoints): string[] => utf8Ranges(high).map((bytes) => bytes.map(printByte).join(' '));

const same = (first: number, last: number, index: number): boolean =>
  beyondAscii[index]?.[0] === first && beyondAscii[index]?.[1] === last;

const printRange = ([first, last]: readonly [number, number]): string =>
  first === last ? hex(first) : `${hex(first)}-${hex(last)}`;

/** A class of one character would be read as the character; written twice it stays a byte. */
const printByte = ([first, last]: ByteRange): string =>
  first === last ? `[${hex(first)}${hex(first)}]` : `[${hex(first)}-${hex(last)}]`;

const hex = (code: number): string => `\\x${code.toString(16).padStart(2, '0')}`;

/** The rule of all characters beyond ASCII, which most sets have. */
export const beyondAsciiRule = 'beyond_ascii';
export const beyondAsciiLine = `${beyondAsciiRule} ::= ${spell(beyondAscii).join(' | ')}`;
