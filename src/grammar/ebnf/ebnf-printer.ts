import { type CodePoints, intersection } from './code-points.ts';
import type { Expression, FreeText } from './expression.ts';
import { markByte, markCharacter } from './length-marks.ts';
import { type ByteRange, utf8Ranges } from './utf8-ranges.ts';

const ascii: CodePoints = [[0, 0x7f]];
const nonAscii: CodePoints = [
  [0x80, 0xd7ff],
  [0xe000, 0x10ffff],
];

/**
 * Prints rules as XGrammar's EBNF. XGrammar merges alternatives with a common prefix or a common suffix, but is wrong
 * when it merges both: "apx" | "aqy" | "aqx" allows "apy". Therefore no printed rule has two alternatives that start
 * with the same text; what follows the prefix becomes a separate rule.
 */
export class EbnfPrinter {
  readonly lines: string[] = [];
  #last = 0;

  addRule(name: string, expression: Expression): void {
    const body =
      expression.kind === 'free' ? printFreeText(expression) : this.#choice(this.#alternatives(expression));
    this.lines.push(`${name} ::= ${body}`);
  }

  /** The alternatives of an expression, each as a list of atoms. */
  #alternatives(expression: Expression): string[][] {
    switch (expression.kind) {
      case 'choice':
        return expression.options.flatMap((option) => this.#alternatives(option));
      case 'set':
        return toClassAtoms(expression.set);
      case 'sequence': {
        const [first, second, ...more] = expression.parts;
        // Do not create a helper rule: XGrammar does not precompute masks of tokens that span the end of a rule.
        if (first && second?.kind === 'rule' && more.length === 0)
          return this.#alternatives(first).map((option) => [...option, second.name]);
        return [expression.parts.flatMap((part) => this.#atoms(part))];
      }
      case 'text':
      case 'rule':
      case 'mark':
      case 'repeat':
      case 'free':
        return [this.#atoms(expression)];
    }
  }

  #atoms(expression: Expression): string[] {
    switch (expression.kind) {
      case 'text':
        return Array.from(expression.text, quoteEbnf);
      case 'rule':
        return [expression.name];
      case 'mark':
        return [printByte([markByte, markByte]), quoteEbnf(markCharacter(expression.index))];
      case 'repeat': {
        const of = this.#toSingleAtom(expression.of);
        const { min, max } = expression;
        if (min === 0 && max === 1) return [`(${of})?`];
        if (max !== Number.POSITIVE_INFINITY) return [`${of}{${min},${max}}`];
        // XGrammar has a native loop only for `*` over a class; `+` and `{m,}` become rules.
        if (min === 0) return [`${of}*`];
        return min === 1 ? [of, `${of}*`] : [`${of}{${min}}`, `${of}*`];
      }
      case 'sequence':
        return expression.parts.flatMap((part) => this.#atoms(part));
      case 'set':
      case 'choice':
        return [this.#toSingleAtom(expression)];
      case 'free':
        throw new Error('free text must be the complete body of a rule');
    }
  }

  /** Prints an expression as one class or one rule name. */
  #toSingleAtom(expression: Expression): string {
    if (expression.kind === 'rule') return expression.name;
    const alternatives = this.#alternatives(expression);
    const [first] = alternatives;
    const [atom = ''] = first ?? [];
    // A repeated class cannot be repeated again, so only a plain class is returned.
    if (alternatives.length === 1 && first?.length === 1 && atom.startsWith('[') && atom.endsWith(']'))
      return atom;
    return this.#addHelperRule(alternatives);
  }

  #addHelperRule(alternatives: readonly (readonly string[])[]): string {
    const name = `part_${++this.#last}`;
    this.lines.push(`${name} ::= ${this.#choice(alternatives)}`);
    return name;
  }

  #choice(alternatives: readonly (readonly string[])[]): string {
    const groups = new Map<string, (readonly string[])[]>();
    for (const alternative of alternatives) {
      const group = groups.get(alternative[0] ?? '');
      if (group) group.push(alternative);
      else groups.set(alternative[0] ?? '', [alternative]);
    }
    const alternativeTexts = [...groups.values()].map((group) => {
      const [first = [], ...others] = group;
      let sharedCount = 0;
      while (sharedCount < first.length && others.every((other) => other[sharedCount] === first[sharedCount]))
        sharedCount++;
      const uniqueRests = new Map(
        group.map((one) => one.slice(sharedCount)).map((rest) => [rest.join(' '), rest]),
      );
      if (uniqueRests.size === 1) return joinAtoms(first);
      return joinAtoms([...first.slice(0, sharedCount), this.#addHelperRule([...uniqueRests.values()])]);
    });
    return alternativeTexts.join(' | ');
  }
}

/** Joins atoms to a sequence and merges adjacent texts. */
function joinAtoms(atoms: readonly string[]): string {
  const joined: string[] = [];
  for (const atom of atoms) {
    const previous = joined.at(-1);
    if (atom.startsWith('"') && previous?.startsWith('"'))
      joined.push(`${joined.pop()?.slice(0, -1)}${atom.slice(1)}`);
    else joined.push(atom);
  }
  return joined.length === 0 ? '""' : joined.join(' ');
}

function printFreeText({ triggers, stops, repeats }: FreeText): string {
  const parts = triggers.map((trigger) => `(${quoteEbnf(trigger.text)}, ${trigger.rule})`);
  if (stops.length === 0) parts.push('stop_eos=true');
  else parts.push('stop_eos=false', `stop_str=(${stops.map(quoteEbnf).join(', ')})`);
  parts.push(`loop_after_dispatch=${repeats}`);
  return `TagDispatch(${parts.join(', ')})`;
}

export function quoteEbnf(text: string): string {
  let quoted = '"';
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0;
    if (character === '"' || character === '\\') quoted += `\\${character}`;
    else if (code >= 0x20 && code < 0x7f) quoted += character;
    else quoted += `\\U${code.toString(16).padStart(8, '0')}`;
  }
  return `${quoted}"`;
}

/**
 * Prints a character set. XGrammar 0.1.27 reads classes as bytes (it uses the lowest eight bits of non-ASCII
 * characters), and a negated class allows invalid UTF-8. Non-ASCII characters are therefore printed as byte sequences.
 */
function toClassAtoms(set: CodePoints): string[][] {
  const low = intersection(set, ascii);
  const high = intersection(set, nonAscii);
  const byteAtoms = utf8Ranges(high).map((bytes) => bytes.map(printByte));
  return low.length > 0 ? [[`[${low.map(printRange).join('')}]`], ...byteAtoms] : byteAtoms;
}

const printRange = ([first, last]: readonly [number, number]): string =>
  first === last ? hex(first) : `${hex(first)}-${hex(last)}`;

/** A class with one character would be read as that character; written twice, it stays a byte. */
const printByte = ([first, last]: ByteRange): string =>
  first === last ? `[${hex(first)}${hex(first)}]` : `[${hex(first)}-${hex(last)}]`;

const hex = (code: number): string => `\\x${code.toString(16).padStart(2, '0')}`;
