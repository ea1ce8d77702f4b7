/** Compiles WGSL expressions to JavaScript. */
import type { Reflection } from '../wgsl/reflect.ts';
import { locationOf, splitRange, type Range, type Token } from '../wgsl/tokens.ts';
import { builtinCall } from './builtin-functions.ts';
import { EmulationError } from './emulation-error.ts';
import { loadCode } from './memory.ts';
import { foldAbstract, foldInteger, isComparison, unaryCode } from './numerics.ts';
import { barrierFunctions, isSyncFunction, syncCall } from './sync-functions.ts';
import {
  arrayOf,
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
  zeroCode,
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
}

export type Lookup = (name: string) => Value | undefined;

const precedenceLevels: readonly (readonly string[])[] = [
  ['||'],
  ['&&'],
  ['|'],
  ['^'],
  ['&'],
  ['==', '!='],
  ['<', '>', '<=', '>='],
  ['<<', '>>'],
  ['+', '-'],
  ['*', '/', '%'],
];

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
    let left = this.#binary(level + 1);
    for (
      let operator = this.#text();
      operator !== undefined && operators.includes(operator);
      operator = this.#text()
    ) {
      this.#at++;
      left = this.binary(operator, left, this.#binary(level + 1));
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
      return this.#matrixProduct(operator, operands, own);
    return binaryValue(helpers, operator, operands, own, isComparison(operator) ? 'bool' : own);
  }

  #matrixProduct(operator: string, [a, b]: readonly [Value, Value], element: ElementName): Value {
    const [left, right] = [a.type, b.type];
    const round = element === 'f16' ? 'hr' : 'fr';
    if (operator === '*' && left.kind === 'matrix' && right.kind === 'vector')
      return valueOf(vector(left.rows, element), `R.matrixByVector(${round}, ${a.code}, ${b.code})`);
    if (operator === '*' && left.kind === 'vector' && right.kind === 'matrix')
      return valueOf(vector(right.columns, element), `R.vectorByMatrix(${round}, ${a.code}, ${b.code})`);
    if (operator === '*' && left.kind === 'matrix' && right.kind === 'matrix')
      return valueOf(
        { ...left, columns: right.columns },
        `${b.code}.map((c) => R.matrixByVector(${round}, ${a.code}, c))`,
      );
    if (left.kind === 'matrix' && right.kind === 'matrix') {
      const column = binaryValue(
        this.#helpers,
        operator,
        [valueOf(vector(left.rows, element), 'c'), valueOf(vector(left.rows, element), `${b.code}[i]`)],
        element,
        element,
      );
      return valueOf(left, `${a.code}.map((c, i) => ${column.code})`);
    }
    const [matrix, factor] = left.kind === 'matrix' ? [a, b] : [b, a];
    if (matrix.type.kind !== 'matrix') throw new EmulationError(`${operator} of a matrix`);
    const column = binaryValue(
      this.#helpers,
      operator,
      [valueOf(vector(matrix.type.rows, element), 'c'), factor],
      element,
      element,
    );
    return valueOf(matrix.type, `${matrix.code}.map((c) => ${column.code})`);
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
      const args = splitRange(this.#tokens, { from: afterTemplate + 1, to: open.matchIndex }).map((arg) =>
        this.compile(arg),
      );
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
    if (this.#module.isType(name)) return this.#construct(callee, args);
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

  #construct(callee: Range, args: readonly Value[]): Value {
    const helpers = this.#helpers;
    const type = this.#constructedType(callee, args);
    if (args.length === 0) return valueOf(type, zeroCode(type));
    switch (type.kind) {
      case 'scalar':
        return convertTo(helpers, args[0] as Value, type);
      case 'vector': {
        const parts = args.map((arg) => withElement(helpers, arg, type.element));
        const [only] = parts as [Value];
        if (parts.length === 1 && only.type.kind === 'vector') return { ...only, isShared: true };
        if (parts.length === 1) {
          const helper = helpers.define(
            `splat_${type.width}`,
            () => `(v) => [${Array.from({ length: type.width }, () => 'v').join(', ')}]`,
          );
          return valueOf(type, `${helper}(${only.code})`);
        }
        return valueOf(
          type,
          `[${parts.map((part) => (part.type.kind === 'vector' ? `...${part.code}` : part.code)).join(', ')}]`,
        );
      }
      case 'matrix': {
        const parts = args.map((arg) => withElement(helpers, arg, type.element));
        if (parts[0]?.type.kind === 'matrix') return parts[0];
        const columns =
          parts[0]?.type.kind === 'vector'
            ? parts.map(ownedCode)
            : Array.from(
                { length: type.columns },
                (_, c) =>
                  `[${parts
                    .slice(c * type.rows, (c + 1) * type.rows)
                    .map(({ code }) => code)
                    .join(', ')}]`,
              );
        return valueOf(type, `[${columns.join(', ')}]`);
      }
      case 'array':
        return valueOf(
          type,
          `[${args.map((arg) => ownedCode(convertTo(helpers, arg, type.element))).join(', ')}]`,
        );
      case 'struct':
        return valueOf(
          type,
          `[${args.map((arg, i) => ownedCode(convertTo(helpers, arg, type.members[i]?.type ?? arg.type))).join(', ')}]`,
        );
      default:
        throw this.#unsupported(`a constructor of ${type.kind}`, callee.from);
    }
  }

  /** Type of a constructor call; `vec4(...)` and `array(...)` take theirs from the arguments. */
  #constructedType(callee: Range, args: readonly Value[]): ValueType {
    const name = this.#tokens[callee.from]?.text ?? '';
    const isInferred = callee.to === callee.from + 1;
    const shape = /^(?:vec([234])|mat([234])x([234]))$/.exec(name);
    if (isInferred && shape) {
      const element = args.length === 0 ? 'int' : commonElement(args);
      if (shape[1]) return vector(Number(shape[1]), element);
      const own = concreteElement(element === 'int' ? 'float' : element);
      const rows = Number(shape[3]);
      const strideBytes = (rows === 2 ? 2 : 4) * elementBytes(own);
      return { kind: 'matrix', columns: Number(shape[2]), rows, element: own, strideBytes };
    }
    if (isInferred && name === 'array') {
      const [first] = args as [Value];
      const element = elementOf(first.type);
      const type =
        element === undefined ? first.type : withElement(this.#helpers, first, commonElement(args)).type;
      return arrayOf(type, args.length);
    }
    return this.#module.readType(callee);
  }
}

const suffixes: Readonly<Record<string, ElementName>> = { i: 'i32', u: 'u32', f: 'f32', h: 'f16' };

function literal(text: string): Value {
  const isHex = /^0[xX]/.test(text);
  const suffix = (isHex && !/[pP.]/.test(text) ? /[iu]$/ : /[iufh]$/).exec(text)?.[0];
  const digits = suffix ? text.slice(0, -1) : text;
  const isFloat = isHex ? /[pP.]/.test(digits) : /[.eE]/.test(digits);
  const element = suffixes[suffix ?? ''] ?? (isFloat ? 'float' : 'int');
  return constantOf(scalar(element), isHex && isFloat ? hexFloat(digits) : Number(digits));
}

function hexFloat(digits: string): number {
  const [, whole = '', part = '', power = '0'] =
    /^0[xX]([\da-fA-F]*)\.?([\da-fA-F]*)(?:[pP]([+-]?\d+))?$/.exec(digits) ?? [];
  return Number.parseInt(`${whole}${part}` || '0', 16) * 2 ** (Number(power) - 4 * part.length);
}
