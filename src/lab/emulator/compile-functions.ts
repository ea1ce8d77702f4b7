/** Compiles WGSL functions to JavaScript. A function in which invocations meet becomes a generator. */
import { bodyOf, type FunctionInfo } from '../wgsl/reflect.ts';
import { readStatements, type Statement } from '../wgsl/statements.ts';
import { splitRange, type Range, type Token } from '../wgsl/tokens.ts';
import { ExpressionCompiler, type ModuleScope } from './expressions.ts';
import { storeCode } from './memory.ts';
import { type ValueType, voidType } from './value-types.ts';
import { constantOf, convertTo, ownedCode, type Value, valueOf, zeroCode } from './values.ts';

/** JavaScript source of a function expression; its first parameter, `L`, is the invocation. */
export function compileFunction(
  module: ModuleScope,
  lookupGlobal: (name: string) => Value | undefined,
  info: FunctionInfo,
  signature: {
    readonly parameters: readonly ValueType[];
    readonly result: ValueType;
    readonly isGenerator: boolean;
  },
): string {
  return new FunctionCompiler(module, lookupGlobal, info, signature.result).compile(signature);
}

class FunctionCompiler {
  readonly #module: ModuleScope;
  readonly #info: FunctionInfo;
  readonly #result: ValueType;
  readonly #expressions: ExpressionCompiler;
  readonly #scopes: Map<string, Value>[] = [new Map()];
  /** Labels of the bodies of the enclosing loops, where `continue` leaves those. */
  readonly #loops: (string | undefined)[] = [];
  /** Names of variables whose address is taken; they are kept in an array of one. */
  readonly #boxed: ReadonlySet<string>;
  #count = 0;

  constructor(
    module: ModuleScope,
    lookupGlobal: (name: string) => Value | undefined,
    info: FunctionInfo,
    result: ValueType,
  ) {
    this.#module = module;
    this.#info = info;
    this.#result = result;
    this.#boxed = addressedNames(module, bodyOf(module.reflection.tokens, info));
    this.#expressions = new ExpressionCompiler(module, (name) => {
      for (let i = this.#scopes.length - 1; i >= 0; i--) {
        const value = this.#scopes[i]?.get(name);
        if (value) return value;
      }
      return lookupGlobal(name);
    });
  }

  compile({ parameters, isGenerator }: { parameters: readonly ValueType[]; isGenerator: boolean }): string {
    const names = this.#info.parameters.map(({ name }, i) => {
      const code = this.#newName(name);
      const type = parameters[i] ?? voidType;
      this.#define(name, { type, code, isShared: true });
      return code;
    });
    const body = this.#statements(
      readStatements(this.#module.reflection.tokens, bodyOf(this.#module.reflection.tokens, this.#info)),
    );
    return `function${isGenerator ? '*' : ''} (${['L', ...names].join(', ')}) {\nT.turn();\n${body}\n}`;
  }

  #newName(name: string): string {
    // WGSL has no `$` in names, so a variable never has the name of a helper.
    return `${name}$${this.#count++}`;
  }

  #define(name: string, value: Value): void {
    this.#scopes.at(-1)?.set(name, value);
  }

  #block(statements: readonly Statement[]): string {
    this.#scopes.push(new Map());
    const code = this.#statements(statements);
    this.#scopes.pop();
    return `{\n${code}\n}`;
  }

  #statements(statements: readonly Statement[]): string {
    return statements.map((statement) => this.#statement(statement)).join('\n');
  }

  #condition(range: Range): string {
    const value = this.#expressions.compile(range);
    this.#module.noteCondition(range, value);
    return value.code;
  }

  #statement(statement: Statement): string {
    switch (statement.kind) {
      case 'block':
      case 'continuing':
        return this.#block(statement.body);
      case 'if':
        return statement.branches
          .map(
            ({ condition, body }) =>
              `${condition ? `if (${this.#condition(condition)}) ` : ''}${this.#block(body)}`,
          )
          .join(' else ');
      case 'while':
        return this.#loop(`while (${this.#condition(statement.condition)})`, statement.body);
      case 'loop':
        return this.#loop('for (;;)', statement.body);
      case 'for':
        return this.#for(statement);
      case 'switch':
        return this.#switch(statement);
      case 'break':
        return 'break;';
      case 'continue': {
        const label = this.#loops.at(-1);
        return label === undefined ? 'continue;' : `break ${label};`;
      }
      case 'break_if':
        return `if (${this.#condition(statement.condition)}) break;`;
      case 'return': {
        const { value } = statement;
        if (value.from >= value.to) return 'return;';
        const result = this.#expressions.compileAs(value, this.#result);
        // A variable of the function ends with it, so its value needs no copy.
        const isOwn = result.reference?.kind === 'local' && /^[\w$]+$/u.test(result.code);
        return `return ${isOwn ? result.code : ownedCode(result)};`;
      }
      case 'declare':
        return this.#declaration(statement);
      case 'assign':
        return this.#assignment(statement);
      case 'call':
        return `${this.#expressions.compile(statement.call).code};`;
    }
  }

  /** `continue` in a loop with a `continuing` block goes on with that block. */
  #loop(head: string, body: readonly Statement[]): string {
    const last = body.at(-1);
    const hasContinuing = last?.kind === 'continuing';
    const label = hasContinuing ? this.#newName('body') : undefined;
    this.#loops.push(label);
    this.#scopes.push(new Map());
    const main = this.#statements(hasContinuing ? body.slice(0, -1) : body);
    // Variables of the body are visible in its `continuing` block, so that is compiled in the same scope.
    const rest = last?.kind === 'continuing' ? this.#statements(last.body) : '';
    this.#scopes.pop();
    this.#loops.pop();
    const inner = label === undefined ? main : `${label}: {\n${main}\n}\n${rest}`;
    return `${head} {\nT.turn();\n${inner}\n}`;
  }

  #for(statement: Extract<Statement, { kind: 'for' }>): string {
    const { init, condition, update, body } = statement;
    this.#scopes.push(new Map());
    const first = this.#statements(init);
    const test = condition ? this.#condition(condition) : '';
    const step = this.#statements(update).replace(/;$/, '');
    if (step.startsWith('{')) throw this.#module.unsupported('this update of a loop', statement);
    const code = this.#loop(`for (; ${test}; ${step})`, body);
    this.#scopes.pop();
    return `{\n${first}\n${code}\n}`;
  }

  #switch({ condition, cases, selectors }: Extract<Statement, { kind: 'switch' }>): string {
    const { tokens } = this.#module.reflection;
    const value = this.#expressions.compileAs(condition);
    const labels = selectors.map(({ from, to }) => {
      const end = tokens[to - 1]?.text === ':' ? to - 1 : to;
      if (tokens[from]?.text === 'default') return 'default:';
      return splitRange(tokens, { from: from + 1, to: end })
        .map((range) =>
          tokens[range.from]?.text === 'default'
            ? 'default:'
            : `case ${this.#expressions.compileAs(range, value.type).code}:`,
        )
        .join(' ');
    });
    const branches = cases.map((body, i) => `${labels[i]} ${this.#block(body)} break;`);
    return `switch (${value.code}) {\n${branches.join('\n')}\n}`;
  }

  #declaration({ keyword, name: token, type, value }: Extract<Statement, { kind: 'declare' }>): string {
    const name = this.#module.reflection.tokens[token]?.text ?? '';
    const declared = type && this.#module.readType(type);
    const initial = value
      ? this.#expressions.compileAs(value, declared)
      : valueOf(declared ?? voidType, zeroCode(declared ?? voidType));
    if (keyword === 'const' && initial.constant !== undefined) {
      // Abstract constants keep their type: `const a = 1;` may be a u32 or a float where it is used.
      const raw = value && declared === undefined ? this.#expressions.compile(value) : initial;
      this.#define(name, constantOf(raw.type, raw.constant ?? initial.constant));
      return '';
    }
    const code = this.#newName(name);
    const { type: own } = initial;
    if (keyword !== 'var') {
      this.#define(name, { type: own, code, isShared: true });
      return `const ${code} = ${own.kind === 'pointer' ? initial.code : ownedCode(initial)};`;
    }
    if (this.#boxed.has(name)) {
      this.#define(
        name,
        this.#expressions.stored(own, { kind: 'local', code: `${code}[0]`, container: [code, '0'] }),
      );
      return `const ${code} = [${ownedCode(initial)}];`;
    }
    this.#define(name, this.#expressions.stored(own, { kind: 'local', code }));
    return `let ${code} = ${ownedCode(initial)};`;
  }

  #assignment({ target, operator, value, from, to }: Extract<Statement, { kind: 'assign' }>): string {
    const expressions = this.#expressions;
    const { tokens } = this.#module.reflection;
    if (tokens[target.from]?.text === '_' && target.to === target.from + 1)
      return `${expressions.compile(value).code};`;
    const isCompound = operator !== '=';
    const compiled = expressions.compile(target);
    // The place of a compound assignment is computed once: a call in it may have effects.
    if (isCompound && compiled.reference?.kind === 'memory' && hasCall(tokens, target)) {
      const address = this.#newName('address');
      const once = expressions.stored(compiled.type, { ...compiled.reference, address });
      return `{ const ${address} = ${compiled.reference.address}; ${this.#store(once, { target, operator, value, from, to })} }`;
    }
    if (isCompound && hasCall(tokens, target))
      throw this.#module.unsupported('a compound assignment to a part of a variable that a call selects', {
        from,
        to,
      });
    return this.#store(compiled, { target, operator, value, from, to });
  }

  #store(
    place: Value,
    { operator, value, from, to }: Omit<Extract<Statement, { kind: 'assign' }>, 'kind'>,
  ): string {
    const expressions = this.#expressions;
    const { reference, type } = place;
    if (!reference) throw this.#module.unsupported('an assignment to this expression', { from, to });
    const given = (): Value => {
      if (operator === '=') return expressions.compileAs(value, type);
      const one = constantOf({ kind: 'scalar', element: 'int' }, 1);
      const operand = operator === '++' || operator === '--' ? one : expressions.compile(value);
      return convertTo(this.#module.helpers, expressions.binary(operatorOf(operator), place, operand), type);
    };
    const code = ownedCode(given());
    if (reference.kind === 'local') return `${reference.code} = ${code};`;
    return `${storeCode(this.#module.helpers, type, reference, code)};`;
  }
}

const hasCall = (tokens: readonly Token[], { from, to }: Range): boolean =>
  tokens.slice(from, to).some(({ kind }, i) => kind === 'name' && tokens[from + i + 1]?.text === '(');

const operatorOf = (assignment: string): string =>
  assignment === '++' ? '+' : assignment === '--' ? '-' : assignment.slice(0, -1);

/** Names that follow a unary `&`. */
function addressedNames({ reflection: { tokens } }: ModuleScope, { from, to }: Range): ReadonlySet<string> {
  const names = new Set<string>();
  for (let i = from + 1; i + 1 < to; i++) {
    const before = tokens[i - 1];
    const isUnary = before?.kind === 'symbol' && before.text !== ')' && before.text !== ']';
    const name = tokens[i + 1];
    if (tokens[i]?.text === '&' && isUnary && name?.kind === 'name') names.add(name.text);
  }
  return names;
}
