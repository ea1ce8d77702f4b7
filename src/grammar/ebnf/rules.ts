import { GrammarError } from '../types.ts';
import { type Expression, rule } from './expression.ts';
import { type Lengths, mostMarks } from './marks.ts';
import { Printer } from './print.ts';

const mostRules = 20_000;

/** Builds a grammar: rules by name. */
export class Rules {
  readonly #rules = new Map<string, Expression>();
  readonly #shared = new Map<string, string>();
  readonly #counted: boolean;
  readonly #lengths: Lengths[] = [];
  #last = 0;

  /** The first reason why some part matches nothing, to report if the whole grammar matches nothing. */
  #dead: GrammarError | undefined;

  /** @param allowLengthMarks whether the token matcher may count characters after length marks */
  constructor(counted: boolean) {
    this.#counted = counted;
  }

  /** The length bounds of the marks, by index. */
  get lengths(): readonly Lengths[] {
    return this.#lengths;
  }

  get dead(): GrammarError | undefined {
    return this.#dead;
  }

  blame(reason: GrammarError): void {
    this.#dead ??= reason;
  }

  /** Creates an empty builder with the same options, to test whether a part can be enforced. */
  trial(): Rules {
    return new Rules(this.#counted);
  }

  /** Creates the length mark of a string; undefined when rules must count its characters. */
  mark({ least, most }: Lengths): Expression | undefined {
    if (!this.#counted) return undefined;
    let index = this.#lengths.findIndex((one) => one.least === least && one.most === most);
    if (index < 0) {
      if (this.#lengths.length === mostMarks) return undefined;
      index = this.#lengths.push({ least, most }) - 1;
    }
    return { kind: 'mark', index };
  }

  /** Returns an unused rule name. */
  reserve(hint: string): string {
    if (this.#last >= mostRules)
      throw new GrammarError('grammar_too_complex', `the grammar needs more than ${mostRules} rules`);
    return `${hint}_${++this.#last}`;
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
  shared(key: string, hint: string, make: () => Expression | undefined): Expression | undefined {
    const known = this.#shared.get(key);
    if (known !== undefined) return rule(known);
    const made = make();
    if (!made) return undefined;
    const name = this.add(hint, made);
    this.#shared.set(key, name);
    return rule(name);
  }

  /** Like `shared`, for a rule that may refer to itself. */
  sharedLoop(key: string, hint: string, make: (again: Expression) => Expression): Expression {
    const known = this.#shared.get(key);
    if (known !== undefined) return rule(known);
    const name = this.reserve(hint);
    this.#shared.set(key, name);
    this.define(name, make(rule(name)));
    return rule(name);
  }

  /**
   * Prints all rules that `root` needs, without alternatives that match nothing (a list that must contain itself).
   * @returns undefined when the grammar matches nothing
   */
  print(root: string): string | undefined {
    const ends = this.#thatEnd();
    if (!ends.has(root)) return undefined;
    const printer = new Printer();
    printer.rule('root', rule(root));
    const seen = new Set([root]);
    for (const name of seen) {
      const expression = prune(this.#rules.get(name) as Expression, ends);
      if (!expression) throw new Error(`rule ${name} matches nothing`);
      for (const used of usedBy(expression)) seen.add(used);
      printer.rule(name, expression);
    }
    return printer.lines.join('\n');
  }

  /** Rules that match at least one text. */
  #thatEnd(): Set<string> {
    const users = new Map<string, string[]>();
    for (const [name, expression] of this.#rules) {
      for (const used of usedBy(expression)) {
        const list = users.get(used);
        if (list) list.push(name);
        else users.set(used, [name]);
      }
    }
    const ends = new Set<string>();
    const pending = [...this.#rules.keys()];
    for (let name = pending.pop(); name !== undefined; name = pending.pop()) {
      const expression = this.#rules.get(name);
      if (ends.has(name) || !expression || !prune(expression, ends)) continue;
      ends.add(name);
      pending.push(...(users.get(name) ?? []));
    }
    return ends;
  }
}

function usedBy(expression: Expression): string[] {
  switch (expression.kind) {
    case 'rule':
      return [expression.name];
    case 'sequence':
      return expression.parts.flatMap(usedBy);
    case 'choice':
      return expression.options.flatMap(usedBy);
    case 'repeat':
      return usedBy(expression.of);
    case 'free':
      return expression.triggers.map((trigger) => trigger.rule);
    case 'text':
    case 'set':
    case 'mark':
      return [];
  }
}

/** Removes alternatives that use rules that are not productive; undefined when nothing remains. */
function prune(expression: Expression, ends: ReadonlySet<string>): Expression | undefined {
  switch (expression.kind) {
    case 'rule':
      return ends.has(expression.name) ? expression : undefined;
    case 'sequence': {
      const parts = expression.parts.map((part) => prune(part, ends));
      return parts.every((part) => part !== undefined) ? { kind: 'sequence', parts } : undefined;
    }
    case 'choice': {
      const left = expression.options.map((option) => prune(option, ends)).filter((one) => one !== undefined);
      return left.length > 0 ? { kind: 'choice', options: left } : undefined;
    }
    case 'repeat': {
      const of = prune(expression.of, ends);
      if (of) return { ...expression, of };
      return expression.min === 0 ? { kind: 'text', text: '' } : undefined;
    }
    case 'set':
      return expression.set.length > 0 ? expression : undefined;
    case 'free':
      return expression.triggers.every((trigger) => ends.has(trigger.rule)) ? expression : undefined;
    case 'text':
    case 'mark':
      return expression;
  }
}
