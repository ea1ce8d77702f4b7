/**
 * Finds conditions that compare sizes, positions or data with constants: a kernel that is right only where it is tested, or wrong only
 * where it is measured, has to recognize the place. Variables are identified by name in each function, regardless of scope.
 */
import { readPlaces } from './places.ts';
import { bodyOf, type FunctionInfo, type Reflection } from './reflect.ts';
import { childrenOf, readStatements, type Statement } from './statements.ts';
import { locationOf, splitRange, type Range, type SourceLocation, type Token } from './tokens.ts';

export interface ConstantCondition {
  /** What is compared, as written. */
  readonly compared: string;
  readonly constant: number;
  /** Floats of a buffer, whose magnitude honest kernels compare too: where a function has another formula near 0. */
  readonly isMagnitude: boolean;
  readonly location: SourceLocation;
}

const comparisons: ReadonlySet<string> = new Set(['==', '!=', '<', '>', '<=', '>=']);
/** Tokens that end an operand of a comparison, at its depth of brackets. */
const ends: ReadonlySet<string> = new Set(
  '&& || , ; = += -= *= /= %= &= |= ^= <<= >>= { } : return if while break'.split(' '),
);
/** From here on, a constant stands for infinity, as bits, or for no value. */
const minSentinel = 0x7f80_0000;

/** Sorted by location. Expects source that Tint accepts. */
export function findConstantConditions(reflection: Reflection): ConstantCondition[] {
  const { tokens, source } = reflection;
  const inputs = new InputDependence(reflection, new Set(['storage', 'uniform']));
  const sizes = new InputDependence(reflection, new Set(['uniform']));
  const found: ConstantCondition[] = [];
  const report = (fn: FunctionInfo, compared: Range, constant: number, isFloat: boolean) => {
    const [from, to] = [tokens[compared.from], tokens[compared.to - 1]];
    if (!from || !to) return;
    found.push({
      compared: source.slice(from.offset, to.offset + to.text.length),
      constant,
      // Sizes are at least 1, also as floats.
      isMagnitude: isFloat && (Math.abs(constant) < 1 || !sizes.reaches(fn, compared)),
      location: locationOf(tokens, compared),
    });
  };
  for (const fn of reflection.functions) {
    const body = bodyOf(tokens, fn);
    const constants = localConstants(reflection, body);
    const valueOf = (range: Range): number | undefined =>
      (range.to === range.from + 1 ? constants.get(tokens[range.from]?.text ?? '') : undefined) ??
      reflection.evaluate(range);
    const isOrdinary = (value: number | undefined): value is number =>
      value !== undefined && Math.abs(value) !== 1 && value !== 0 && Math.abs(value) < minSentinel;
    for (let at = body.from; at < body.to; at++) {
      const token = tokens[at];
      if (token?.kind !== 'symbol' || !comparisons.has(token.text) || token.matchIndex >= 0) continue;
      const left = operandBefore(tokens, at, body.from);
      const right = operandAfter(tokens, at, body.to);
      for (const [operand, other] of [
        [left, right],
        [right, left],
      ] as const) {
        const value = valueOf(other);
        if (value === undefined || !inputs.reaches(fn, operand)) continue;
        const period = periodIn(tokens, operand, valueOf);
        if (isOrdinary(value)) report(fn, operand, value, isFloat(tokens, other, value));
        else if (period !== undefined) report(fn, operand, period, false);
      }
    }
    const visit = (statement: Statement): void => {
      if (statement.kind === 'switch' && inputs.reaches(fn, statement.condition)) {
        const values = statement.selectors.flatMap(({ from, to }) => {
          const end = tokens[to - 1]?.text === ':' ? to - 1 : to;
          return splitRange(tokens, { from: from + 1, to: end }).map((one) => valueOf(one));
        });
        const value = values.find(isOrdinary);
        if (value !== undefined) report(fn, statement.condition, value, false);
      }
      childrenOf(statement).forEach(visit);
    };
    readStatements(tokens, body).forEach(visit);
  }
  return found.sort((a, b) => a.location.line - b.location.line || a.location.column - b.location.column);
}

const isFloat = (tokens: readonly Token[], { from, to }: Range, value: number): boolean =>
  !Number.isInteger(value) ||
  tokens.slice(from, to).some(({ kind, text }) => kind === 'number' && /^(?!0x).*[.efh]/i.test(text));

/** A constant after `%` that is no power of two: `row % 37 == 0` recognizes rows, `columns % 4 == 0` whole vectors. */
function periodIn(
  tokens: readonly Token[],
  { from, to }: Range,
  valueOf: (range: Range) => number | undefined,
): number | undefined {
  for (let at = from; at < to; at++) {
    if (tokens[at]?.text !== '%') continue;
    const value = valueOf({ from: at + 1, to: at + 2 });
    if (value !== undefined && Number.isInteger(value) && value > 2 && (value & (value - 1)) !== 0)
      return value;
  }
  return undefined;
}

function operandBefore(tokens: readonly Token[], at: number, first: number): Range {
  let from = at;
  while (from > first) {
    const token = tokens[from - 1];
    if (!token || isEnd(token)) break;
    // Jumps to the opening bracket; an opening bracket that is met encloses the comparison.
    if (token.matchIndex >= 0 && token.matchIndex < from - 1) from = token.matchIndex;
    else if (token.matchIndex >= from) break;
    else from -= 1;
  }
  return { from, to: at };
}

function operandAfter(tokens: readonly Token[], at: number, end: number): Range {
  let to = at + 1;
  while (to < end) {
    const token = tokens[to];
    if (!token || isEnd(token)) break;
    if (token.matchIndex > to) to = token.matchIndex + 1;
    else if (token.matchIndex >= 0) break;
    else to += 1;
  }
  return { from: at + 1, to };
}

const isEnd = ({ text, matchIndex }: Token): boolean =>
  ends.has(text) || (comparisons.has(text) && matchIndex < 0);

/** Values of `let` and `const` in a function that are constant. A name that is declared twice with different values has none. */
function localConstants(reflection: Reflection, body: Range): ReadonlyMap<string, number> {
  const { tokens } = reflection;
  const values = new Map<string, number | undefined>();
  const visit = (statement: Statement): void => {
    if (statement.kind === 'declare') {
      const name = tokens[statement.name]?.text ?? '';
      const value =
        statement.value && statement.keyword !== 'var' ? reflection.evaluate(statement.value) : undefined;
      values.set(name, values.has(name) && values.get(name) !== value ? undefined : value);
    }
    childrenOf(statement).forEach(visit);
  };
  readStatements(tokens, body).forEach(visit);
  return new Map([...values].filter((entry): entry is [string, number] => entry[1] !== undefined));
}

/**
 * Which variables hold values that depend on buffers, on sizes, or on the place in the output. A name is found by a key: a local with
 * its function, or a module variable or a function alone. The time is linear in the source.
 */
class InputDependence {
  readonly #tokens: readonly Token[];
  readonly #reached = new Set<string>();
  /** Members of structs of builtin values. */
  readonly #members: ReadonlySet<string>;
  /** Keys that depend on a key. */
  readonly #dependents = new Map<string, string[]>();

  /** @param spaces address spaces of the variables that are inputs */
  constructor(reflection: Reflection, spaces: ReadonlySet<string>) {
    const { tokens, functions, variables } = reflection;
    this.#tokens = tokens;
    for (const { name, space } of variables) if (spaces.has(space)) this.#reached.add(keyOf(name));
    const places = readPlaces(reflection);
    for (const { fn, name } of places.parameters) this.#reached.add(keyOf(name, fn));
    this.#members = places.members;
    const module = new Set(variables.map(({ name }) => name));
    const byName = new Map(functions.map((fn) => [fn.name, fn]));
    for (const fn of functions) {
      const body = bodyOf(tokens, fn);
      for (const statement of readStatements(tokens, body)) this.#addStatement(fn, statement, module);
      this.#addArguments(fn, body, byName);
    }
    // The set grows during the iteration.
    for (const key of this.#reached)
      for (const dependent of this.#dependents.get(key) ?? []) this.#reached.add(dependent);
  }

  reaches(fn: FunctionInfo, range: Range): boolean {
    for (const token of this.#namesIn(range)) {
      if (token.isMember ? this.#members.has(token.text) : this.#isReached(fn, token.text)) return true;
    }
    return false;
  }

  #isReached(fn: FunctionInfo, name: string): boolean {
    return this.#reached.has(keyOf(name, fn)) || this.#reached.has(keyOf(name));
  }

  *#namesIn({ from, to }: Range): Generator<{ readonly text: string; readonly isMember: boolean }> {
    for (let at = from; at < to; at++) {
      const token = this.#tokens[at];
      if (token?.kind === 'name') yield { text: token.text, isMember: this.#tokens[at - 1]?.text === '.' };
    }
  }

  #addStatement(fn: FunctionInfo, statement: Statement, module: ReadonlySet<string>): void {
    const tokens = this.#tokens;
    if (statement.kind === 'declare' && statement.value)
      this.#depend(fn, keyOf(tokens[statement.name]?.text ?? '', fn), statement.value);
    else if (statement.kind === 'assign') {
      const { from, to } = statement.target;
      const root = tokens.slice(from, to).find(({ kind }) => kind === 'name')?.text;
      if (root !== undefined)
        this.#depend(fn, module.has(root) ? keyOf(root) : keyOf(root, fn), statement.value);
    } else if (statement.kind === 'return') this.#depend(fn, keyOf(fn.name), statement.value);
    for (const child of childrenOf(statement)) this.#addStatement(fn, child, module);
  }

  #addArguments(fn: FunctionInfo, { from, to }: Range, byName: ReadonlyMap<string, FunctionInfo>): void {
    const tokens = this.#tokens;
    for (let at = from; at < to; at++) {
      const callee = byName.get(tokens[at]?.text ?? '');
      const open = tokens[at + 1];
      if (!callee || open?.text !== '(') continue;
      const given = splitRange(tokens, { from: at + 2, to: open.matchIndex });
      for (const [n, range] of given.entries()) {
        const name = callee.parameters[n]?.name;
        if (name !== undefined) this.#depend(fn, keyOf(name, callee), range);
      }
    }
  }

  /** Notes that a key depends on the names of a range. */
  #depend(fn: FunctionInfo, key: string, range: Range): void {
    for (const { text, isMember } of this.#namesIn(range)) {
      if (isMember && this.#members.has(text)) this.#reached.add(key);
      if (isMember) continue;
      for (const source of [keyOf(text, fn), keyOf(text)]) {
        const known = this.#dependents.get(source);
        if (known) known.push(key);
        else this.#dependents.set(source, [key]);
      }
    }
  }
}

const keyOf = (name: string, fn?: FunctionInfo): string => `${fn?.name ?? ''} ${name}`;
