/** Compiles WGSL expressions to JavaScript. */
import { precedenceLevels } from '../wgsl/constants.ts';
import type { Reflection } from '../wgsl/reflect.ts';
import { locationOf, splitRange, type Range, type Token } from '../wgsl/tokens.ts';
import { builtinCall } from './builtin-functions.ts';
import { constructed, inferredType } from './constructors.ts';
import { EmulationError } from './emulation-error.ts';
import { literal } from './literals.ts';
import { matrixBinary } from './matrix-arithmetic.ts';
import { loadCode } from './memory.ts';
import { foldAbstract, foldInteger, isComparison, unaryCode } from './numerics.ts';
import { barrierFunctions, isSyncFunction, syncCall } from './sync-functions.ts';
import {
  bool,
  concreteElement,
  type ElementName,
  elementBytes,
  elementOf,
  isAbstract,
  scalar,
  u32,
  type ValueType,
  vector,
  voidType,
} from './value-types.ts';
import {
  binaryValue,
  commonElement,
  constantOf,
  convertTo,
  type Helpers,
  mapComponents,
  materialize,
  ownedCode,
  type Reference,
  type Value,
  valueOf,
  withElement,
} from './values.ts';

export interface CompiledFunction {
  readonly code: string;
  readonly parameters: readonly ValueType[];
  readonly result: ValueType;
  /** Whether invocations meet in it; then it is a generator. */
  readonly isGenerator: boolean;
  readonly copiesArguments: boolean;
}

/** What the expressions of a module refer to. */
export interface ModuleScope {
  readonly reflection: Reflection;
  readonly helpers: Helpers;
  readType(range: Range): ValueType;
  /** Whether this name denotes a type: a struct, an alias or a predeclared type. */
  isType(name: string): boolean;
  functionNamed(name: string): CompiledFunction | undefined;
  unsupported(construct: string, range: Range): EmulationError;
  /** Called with each value that can be a condition: comparisons, `&&` and `||`, and what `if`, loops and `select` take. */
  noteCondition(range: Range, value: Value): void;
  /** Called with each result of an operator or a function, and each value of a variable or a part of one. */
  noteValue(range: Range, value: Value): void;
}

export type Lookup = (name: string) => Value | undefined;

export class ExpressionCompiler {
  readonly #module: ModuleScope;
  readonly #lookup: Lookup;
  readonly #tokens: readonly Token[];
  readonly #helpers: Helpers;
  #at = 0;
  #end = 0;

  constructor(module: ModuleScope, lookup: Lookup) {
    this.#module = module;
    this.#lookup = lookup;
    this.#tokens = module.reflection.tokens;
    this.#helpers = module.helpers;
  }

  compile(range: Range): Value {
    const saved = [this.#at, this.#end] as const;
    [this.#at, this.#end] = [range.from, range.to];
    try {
      const value = this.#binary(0);
      if (this.#at !== range.to) throw this.#unsupported('this expression', this.#at);
      return value;
    } catch (error) {
      if (error instanceof EmulationError) error.location ??= locationOf(this.#tokens, range);
      throw error;
    } finally {
      [this.#at, this.#end] = saved;
    }
  }

  /** Compiles to a concrete type: that of a declaration, or the default of an abstract one. */
  compileAs(range: Range, target?: ValueType): Value {
    const value = this.compile(range);
    return target ? convertTo(this.#helpers, value, target) : materialize(this.#helpers, value);
  }

  #unsupported(what: string, token: number): EmulationError {
    return new EmulationError(what, locationOf(this.#tokens, { from: token, to: token + 1 }));
  }

  #text(): string | undefined {
    return this.#at < this.#end ? this.#tokens[this.#at]?.text : undefined;
  }

  #binary(level: number): Value {
    const operators = precedenceLevels[level];
    if (!operators) return this.#unary();
    const from = this.#at;
    let left = this.#binary(level + 1);
    for (
      let operator = this.#text();
      operator !== undefined && operators.includes(operator);
      operator = this.#text()
    ) {
      this.#at++;
      left = this.binary(operator, left, this.#binary(level + 1));
      if (isComparison(operator) || operator === '&&' || operator === '||')
        this.#module.noteCondition({ from, to: this.#at }, left);
      else this.#module.noteValue({ from, to: this.#at }, left);
    }
    return left;
  }

  /** `left operator right`. */
  binary(operator: string, left: Value, right: Value): Value {
    const helpers = this.#helpers;
    if (operator === '&&' || operator === '||')
      return valueOf(bool, `(${left.code} ${operator} ${right.code})`);
    if (operator === '<<' || operator === '>>') {
      if (
        typeof left.constant === 'number' &&
        typeof right.constant === 'number' &&
        elementOf(left.type) === 'int'
      )
        return constantOf(left.type, foldAbstract(operator, 'int', left.constant, right.constant) as number);
      const element = concreteElement(elementOf(left.type) ?? 'u32');
      const shifts = withElement(helpers, right, 'u32');
      return binaryValue(helpers, operator, [withElement(helpers, left, element), shifts], element, element);
    }
    const element = commonElement([left, right]);
    if (isAbstract(element) && typeof left.constant === 'number' && typeof right.constant === 'number') {
      const folded = foldAbstract(operator, element, left.constant, right.constant);
      if (folded !== undefined)
        return constantOf(typeof folded === 'boolean' ? bool : scalar(element), folded);
    }
    if (
      (element === 'u32' || element === 'i32') &&
      typeof left.constant === 'number' &&
      typeof right.constant === 'number'
    ) {
      const folded = foldInteger(operator, element, left.constant, right.constant);
      if (folded !== undefined)
        return constantOf(typeof folded === 'boolean' ? bool : scalar(element), folded);
    }
    const own = concreteElement(element);
    const operands = [withElement(helpers, left, own), withElement(helpers, right, own)] as const;
    if (operands.some(({ type }) => type.kind === 'matrix'))
      return matrixBinary(helpers, operator, operands, own);
    return binaryValue(helpers, operator, operands, own, isComparison(operator) ? 'bool' : own);
  }

  #unary(): Value {
    const operator = this.#text();
    const start = this.#at;
    switch (operator) {
      case '-':
      case '!':
      case '~': {
        this.#at++;
        const inner = this.#unary();
        if (operator === '-' && typeof inner.constant === 'number')
          return constantOf(inner.type, -inner.constant);
        const element = concreteElement(elementOf(inner.type) ?? 'bool');
        const operand = withElement(this.#helpers, inner, element);
        const name = operator === '-' ? 'negate' : operator === '!' ? 'not' : 'complement';
        return mapComponents(this.#helpers, `${name}_${element}`, [operand], element, (code) =>
          unaryCode(operator, element, code),
        );
      }
      case '&': {
        this.#at++;
        return this.pointerTo(this.#unary(), start);
      }
      case '*': {
        this.#at++;
        return this.#dereferenced(this.#unary(), start);
      }
      default:
        return this.#postfix();
    }
  }

  pointerTo({ reference, type }: Value, token: number): Value {
    if (!reference) throw this.#unsupported('the address of this expression', token);
    if (reference.kind === 'memory') {
      const { memory, address, space } = reference;
      return valueOf({ kind: 'pointer', space, to: type }, `{ memory: ${memory}, address: ${address} }`);
    }
    if (!reference.container) throw this.#unsupported('the address of this variable', token);
    const [object, key] = reference.container;
    return valueOf({ kind: 'pointer', space: 'function', to: type }, `{ object: ${object}, key: ${key} }`);
  }

  #dereferenced({ type, code }: Value, token: number): Value {
    if (type.kind !== 'pointer') throw this.#unsupported('a dereferenced value that is not a pointer', token);
    const { to, space } = type;
    if (space !== 'function' && space !== 'private')
      return this.stored(to, {
        kind: 'memory',
        memory: `${code}.memory`,
        address: `${code}.address`,
        space,
        site: token,
      });
    const [object, key] = [`${code}.object`, `${code}.key`];
    return this.stored(to, { kind: 'local', code: `${object}[${key}]`, container: [object, key] });
  }

  /** Value of a variable, or of a part of one. */
  stored(type: ValueType, reference: Reference): Value {
    if (reference.kind === 'local') return { type, reference, code: reference.code, isShared: true };
    // A runtime-sized array, or an atomic, is not a value.
    const isLoadable = !(type.kind === 'atomic' || (type.kind === 'array' && type.count === undefined));
    const load = () => (isLoadable ? loadCode(this.#helpers, type, reference) : 'undefined');
    return {
      type,
      reference,
      // Loaded where the value is needed: an array of which one element is read is not loaded whole.
      get code() {
        return load();
      },
    };
  }

  #postfix(): Value {
    const from = this.#at;
    let value = this.#primary();
    for (let next = this.#text(); next === '.' || next === '['; next = this.#text()) {
      const open = this.#at;
      if (value.type.kind === 'pointer') value = this.#dereferenced(value, open);
      if (next === '.') {
        value = this.#member(value, this.#tokens[open + 1]?.text ?? '', open + 1);
        this.#at = open + 2;
      } else {
        const close = this.#tokens[open]?.matchIndex ?? -1;
        const index = this.compile({ from: open + 1, to: close });
        value = this.#element(value, index, open);
        this.#at = close + 1;
      }
    }
    this.#module.noteValue({ from, to: this.#at }, value);
    return value;
  }

  /** Part of a composite value: at an index of its JavaScript array, or at an offset in memory. */
  #part(value: Value, type: ValueType, key: string, offset: string): Value {
    const { reference } = value;
    if (reference?.kind === 'memory') {
      const { address } = reference;
      return this.stored(type, {
        ...reference,
        address: offset === '0' ? address : `${address} + ${offset}`,
      });
    }
    const code = `${value.code}[${key}]`;
    if (reference) return this.stored(type, { kind: 'local', code, container: [value.code, key] });
    return { type, code, isShared: value.isShared ?? false };
  }

  #member(value: Value, name: string, token: number): Value {
    const { type } = value;
    if (type.kind === 'struct') {
      const index = type.members.findIndex((member) => member.name === name);
      const member = type.members[index];
      if (!member) throw this.#unsupported(`the member ${name}`, token);
      return this.#part(value, member.type, String(index), String(member.offset));
    }
    if (type.kind !== 'vector') throw this.#unsupported(`a member of a ${type.kind}`, token);
    const places = Array.from(name, (letter) => (/[xyzw]/.test(letter) ? 'xyzw' : 'rgba').indexOf(letter));
    const [first = 0] = places;
    if (places.length === 1)
      return this.#part(
        value,
        scalar(type.element),
        String(first),
        String(first * elementBytes(type.element)),
      );
    const helper = this.#helpers.define(
      `swizzle_${name}`,
      () => `(v) => [${places.map((place) => `v[${place}]`).join(', ')}]`,
    );
    return valueOf(vector(places.length, type.element), `${helper}(${value.code})`);
  }

  #element(value: Value, index: Value, token: number): Value {
    const { type, reference } = value;
    const [count, element, strideBytes] = ((): readonly [number | undefined, ValueType, number] => {
      switch (type.kind) {
        case 'array':
          return [type.count, type.element, type.strideBytes];
        case 'vector':
          return [type.width, scalar(type.element), elementBytes(type.element)];
        case 'matrix':
          return [type.columns, vector(type.rows, type.element), type.strideBytes];
        default:
          throw this.#unsupported(`an index into a ${type.kind}`, token);
      }
    })();
    const isKnown = typeof index.constant === 'number' && count !== undefined && index.constant < count;
    const length =
      count !== undefined
        ? String(count)
        : reference?.kind === 'memory'
          ? `R.lengthOf(${reference.memory}, ${reference.address}, ${strideBytes})`
          : '0';
    const key = isKnown
      ? String(index.constant)
      : `T.index(${materialize(this.#helpers, index).code}, ${length}, ${token})`;
    const offset = isKnown ? String(index.constant * strideBytes) : `${key} * ${strideBytes}`;
    return this.#part(value, element, key, offset);
  }

  #primary(): Value {
    const at = this.#at;
    const token = this.#tokens[at];
    if (!token || at >= this.#end) throw this.#unsupported('an empty expression', at);
    this.#at++;
    if (token.kind === 'number') return literal(token.text);
    if (token.text === '(') {
      const inner = this.compile({ from: at + 1, to: token.matchIndex });
      this.#at = token.matchIndex + 1;
      return inner;
    }
    if (token.kind !== 'name') throw this.#unsupported(`'${token.text}' here`, at);
    if (token.text === 'true' || token.text === 'false') return constantOf(bool, token.text === 'true');
    const template = this.#tokens[at + 1];
    const hasTemplate = template?.text === '<' && template.matchIndex > 0 && template.matchIndex < this.#end;
    const afterTemplate = hasTemplate ? template.matchIndex + 1 : at + 1;
    const open = this.#tokens[afterTemplate];
    if (open?.text === '(' && afterTemplate < this.#end) {
      const ranges = splitRange(this.#tokens, { from: afterTemplate + 1, to: open.matchIndex });
      const args = ranges.map((arg) => this.compile(arg));
      const [selector, chosen] = [ranges[2], args[2]];
      if (token.text === 'select' && selector && chosen) this.#module.noteCondition(selector, chosen);
      this.#at = open.matchIndex + 1;
      return this.#call(token.text, args, at, { from: at, to: afterTemplate });
    }
    const value = this.#lookup(token.text);
    if (!value) throw this.#unsupported(`the name ${token.text}`, at);
    return value.reference?.kind === 'memory'
      ? this.stored(value.type, { ...value.reference, site: at })
      : value;
  }

  #call(name: string, args: readonly Value[], site: number, callee: Range): Value {
    const helpers = this.#helpers;
    const declared = this.#module.functionNamed(name);
    if (declared) {
      const given = declared.parameters.map((type, i) => convertTo(helpers, args[i] as Value, type));
      const codes = given.map((value) => (declared.copiesArguments ? ownedCode(value) : value.code));
      const call = `${declared.code}(${['L', ...codes].join(', ')})`;
      return valueOf(declared.result, declared.isGenerator ? `(yield* ${call})` : call);
    }
    if (this.#module.isType(name)) {
      const isInferred = callee.to === callee.from + 1;
      const type = isInferred ? inferredType(helpers, name, args) : undefined;
      return constructed(helpers, type ?? this.#module.readType(callee), args);
    }
    const templates = splitRange(this.#tokens, {
      from: callee.from + 2,
      to: Math.max(callee.from + 2, callee.to - 1),
    });
    if (isSyncFunction(name)) {
      const isMatrixType = (range: Range) => this.#tokens[range.from]?.text.startsWith('subgroup_matrix_');
      const matrixType = templates.find(isMatrixType);
      return syncCall(helpers, {
        name,
        site,
        args: barrierFunctions.has(name)
          ? args
          : args.map((arg) => (arg.type.kind === 'pointer' ? arg : materialize(helpers, arg))),
        templateType: matrixType && this.#module.readType(matrixType),
        templateWords: templates.map(({ from }) => this.#tokens[from]?.text ?? ''),
        load: (type, reference) => this.#loadAtomic(type, reference),
      });
    }
    const [first] = args;
    if (name === 'bitcast' && first && templates[0])
      return this.#bitcast(first, this.#module.readType(templates[0]));
    if (name === 'arrayLength' && first) {
      if (first.type.kind !== 'pointer' || first.type.to.kind !== 'array')
        throw this.#unsupported('this arrayLength', site);
      return valueOf(u32, `R.lengthAt(${first.code}, ${first.type.to.strideBytes})`);
    }
    if (name.startsWith('atomic') && first) return this.#atomic(name, first, args.slice(1), site);
    const result = builtinCall(helpers, name, args);
    if (!result) throw this.#unsupported(`the function ${name}`, site);
    return result;
  }

  #loadAtomic(type: ValueType, reference: Reference): string {
    if (reference.kind === 'local') return reference.code;
    return loadCode(this.#helpers, type.kind === 'atomic' ? scalar(type.element) : type, reference);
  }

  #atomic(name: string, pointer: Value, args: readonly Value[], site: number): Value {
    const { type } = pointer;
    if (type.kind !== 'pointer' || type.to.kind !== 'atomic') throw this.#unsupported(`this ${name}`, site);
    const { element } = type.to;
    const codes = args.map((arg) => withElement(this.#helpers, arg, element).code);
    const helper = this.#helpers.isTraced
      ? this.#helpers.define(
          `traced_${name}_${element}`,
          () => `(p, s, L, ...given) => { T.atomic(p, s, L); return R.${name}(p, '${element}', ...given); }`,
        )
      : undefined;
    const call = helper
      ? `${helper}(${[pointer.code, String(site), 'L', ...codes].join(', ')})`
      : `R.${name}(${[pointer.code, `'${element}'`, ...codes].join(', ')})`;
    if (name === 'atomicStore') return valueOf(voidType, call);
    if (name !== 'atomicCompareExchangeWeak') return valueOf(scalar(element), call);
    const members = [
      { name: 'old_value', type: scalar(element), offset: 0 },
      { name: 'exchanged', type: bool, offset: 4 },
    ];
    return valueOf({ kind: 'struct', name: 'exchange result', members, sizeBytes: 8 }, call);
  }

  #bitcast(value: Value, target: ValueType): Value {
    const own = materialize(this.#helpers, value);
    const [from, to] = [elementOf(own.type), elementOf(target)];
    if (from === undefined || to === undefined) throw new EmulationError('this bitcast');
    if (from === to) return { ...own, type: target };
    const isWord = (element: ElementName) => element === 'u32' || element === 'i32';
    if (isWord(from) && isWord(to))
      return mapComponents(this.#helpers, `bitcast_${from}_${to}`, [own], to, (code) =>
        to === 'u32' ? `(${code} >>> 0)` : `(${code} | 0)`,
      );
    const values = own.type.kind === 'scalar' ? `[${own.code}]` : own.code;
    const call = `R.bitcast('${from}', '${to}', ${values})`;
    return valueOf(target, target.kind === 'scalar' ? `${call}[0]` : call);
  }
}
