import { GrammarError } from '../types.ts';
import { type Expression, rule } from './expression.ts';
import { type LengthBounds, maxMarks } from './length-marks.ts';
import { EbnfPrinter } from './ebnf-printer.ts';

const maxRules = 20_000;

/** Builds a grammar: rules by name. */
export class GrammarBuilder {
  readonly #rules = new Map<string, Expression>();
  readonly #shared = new Map<string, string>();
  readonly #allowLengthMarks: boolean;
  readonly #lengthBounds: LengthBounds[] = [];
  #lastNumber = 0;

  /** The first reason why some part matches nothing, to report if the whole grammar matches nothing. */
  #conflict: GrammarError | undefined;

  /** @param allowLengthMarks whether the token matcher may count characters after length marks */
  constructor(allowLengthMarks: boolean) {
    this.#allowLengthMarks = allowLengthMarks;
  }

  /** The length bounds of the marks, by index. */
  get lengthBounds(): readonly LengthBounds[] {
    return this.#lengthBounds;
  }

  get conflict(): GrammarError | undefined {
    return this.#conflict;
  }

  recordConflict(reason: GrammarError): void {
    this.#conflict ??= reason;
  }

  /** Creates an empty builder with the same options, to test whether a part can be enforced. */
  createTrial(): GrammarBuilder {
    return new GrammarBuilder(this.#allowLengthMarks);
  }

  /** Creates the length mark of a string; undefined when rules must count its characters. */
  createLengthMark({ minLength, maxLength }: LengthBounds): Expression | undefined {
    if (!this.#allowLengthMarks) return undefined;
    let index = this.#lengthBounds.findIndex(
      (bounds) => bounds.minLength === minLength && bounds.maxLength === maxLength,
    );
    if (index < 0) {
      if (this.#lengthBounds.length === maxMarks) return undefined;
      index = this.#lengthBounds.push({ minLength, maxLength }) - 1;
    }
    return { kind: 'mark', index };
  }

  /** Returns an unused rule name. */
  reserve(hint: string): string {
    if (this.#lastNumber >= maxRules)
      throw new GrammarError('grammar_too_complex', `the grammar needs more than ${maxRules} rules`);
    return `${hint}_${++this.#lastNumber}`;
  }

  define(name: string, expression: Expression): void {
    this.#rules.set(name, expression);
  }

  add(hint: string, expression: Expression): string {
    const name = this.reserve(hint);
    this.define(name, expression);
    return name;
  }

  /** Returns the rule with this key and creates it on first use. */
  shared(key: string, hint: string, create: () => Expression | undefined): Expression | undefined {
    const existing = this.#shared.get(key);
    if (existing !== undefined) return rule(existing);
    const expression = create();
    if (!expression) return undefined;
    const name = this.add(hint, expression);
    this.#shared.set(key, name);
    return rule(name);
  }

  /** Like `shared`, for a rule that may refer to itself. */
  addSharedRecursive(key: string, hint: string, create: (self: Expression) => Expression): Expression {
    const existing = this.#shared.get(key);
    if (existing !== undefined) return rule(existing);
    const name = this.reserve(hint);
    this.#shared.set(key, name);
    this.define(name, create(rule(name)));
    return rule(name);
  }

  /**
   * Prints all rules that `root` needs, without alternatives that match nothing (a list that must contain itself).
   * @returns undefined when the grammar matches nothing
   */
  print(root: string): string | undefined {
    const productive = this.#findProductiveRules();
    if (!productive.has(root)) return undefined;
    const printer = new EbnfPrinter();
    printer.addRule('root', rule(root));
    const seen = new Set([root]);
    for (const name of seen) {
      const expression = prune(this.#rules.get(name) as Expression, productive);
      if (!expression) throw new Error(`rule ${name} matches nothing`);
      for (const referenced of referencedRules(expression)) seen.add(referenced);
      printer.addRule(name, expression);
    }
    return printer.lines.join('\n');
  }

  /** Rules that match at least one text. */
  #findProductiveRules(): Set<string> {
    const referencingRules = new Map<string, string[]>();
    for (const [name, expression] of this.#rules) {
      for (const referenced of referencedRules(expression)) {
        const list = referencingRules.get(referenced);
        if (list) list.push(name);
        else referencingRules.set(referenced, [name]);
      }
    }
    const productive = new Set<string>();
    const pending = [...this.#rules.keys()];
    for (let name = pending.pop(); name !== undefined; name = pending.pop()) {
      const expression = this.#rules.get(name);
      if (productive.has(name) || !expression || !prune(expression, productive)) continue;
      productive.add(name);
      pending.push(...(referencingRules.get(name) ?? []));
    }
    return productive;
  }
}

function referencedRules(expression: Expression): string[] {
  switch (expression.kind) {
    case 'rule':
      return [expression.name];
    case 'sequence':
      return expression.parts.flatMap(referencedRules);
    case 'choice':
      return expression.options.flatMap(referencedRules);
    case 'repeat':
      return referencedRules(expression.of);
    case 'free':
      return expression.triggers.map((trigger) => trigger.rule);
    case 'text':
    case 'set':
    case 'mark':
      return [];
  }
}

/** Removes alternatives that use rules that are not productive; undefined when nothing remains. */
function prune(expression: Expression, productive: ReadonlySet<string>): Expression | undefined {
  switch (expression.kind) {
    case 'rule':
      return productive.has(expression.name) ? expression : undefined;
    case 'sequence': {
      const parts = expression.parts.map((part) => prune(part, productive));
      return parts.every((part) => part !== undefined) ? { kind: 'sequence', parts } : undefined;
    }
    case 'choice': {
      const options = expression.options
        .map((option) => prune(option, productive))
        .filter((option) => option !== undefined);
      return options.length > 0 ? { kind: 'choice', options: options } : undefined;
    }
    case 'repeat': {
      const of = prune(expression.of, productive);
      if (of) return { ...expression, of };
      return expression.min === 0 ? { kind: 'text', text: '' } : undefined;
    }
    case 'set':
      return expression.set.length > 0 ? expression : undefined;
    case 'free':
      return expression.triggers.every((trigger) => productive.has(trigger.rule)) ? expression : undefined;
    case 'text':
    case 'mark':
      return expression;
  }
}
