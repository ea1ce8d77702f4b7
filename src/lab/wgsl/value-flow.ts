/**
 * Follows through variables, functions and arguments where values come from, and what arithmetic was done with them. Variables are
 * identified by name in each function, regardless of scope. The time is linear in the source.
 */
import { contracts, type Contract } from '../../../kernels/contracts.ts';
import { parseExpression, type Expression } from './expressions.ts';
import { readPlaces } from './places.ts';
import { bodyOf, type FunctionInfo, type Reflection, type Variable } from './reflect.ts';
import { childrenOf, readStatements, type Statement } from './statements.ts';
import type { Range } from './tokens.ts';
import type { Type } from './types.ts';

/** Bits that tell what a value is made of. */
export const trait = {
  /** The part of the output that an invocation computes. */
  place: 1,
  /** Sizes and other params. */
  size: 2,
  /** Floats of buffers. */
  float: 4,
  /** Integers of buffers: ids, positions, slots, pages. */
  record: 8,
  /** An id, a position, a slot, a seed or a page itself, not what was computed with several values. */
  identity: 16,
  /** Logits, in which samplers look for ties. */
  logit: 32,
  /** The bits of a float, or a hash. */
  bits: 64,
  /** Shifted by a constant, so that it is 0 for one value. */
  offset: 128,
  /** The difference of two values, so that it is 0 where they are equal. */
  difference: 256,
  /** Divided by a constant, so that it is 0 below it. */
  quotient: 512,
  /** A float that is shifted by a constant. */
  floatOffset: 1024,
  /** A whole record of `token`, or its array. */
  tokenRecord: 2048,
  /** A whole record of `samples`, or its array. */
  sampleRecord: 4096,
  /** An integer that became a float. */
  asFloat: 8192,
  /** The bits of a float. */
  floatBits: 16384,
  /** A hash of the bits of a float. */
  floatHash: 32_768,
  /** `floatOffset`, and since then multiplied only by constants and by itself. */
  nearOffset: 131_072,
  /** The counter of a loop over what a row has. As a float, it is a place. */
  counter: 65_536,
  /** The number of tokens of a step, in ops that have steps of several. */
  stepSize: 262_144,
  /** Selected by a condition, or read from a table, by data, positions or the size of a step. */
  selected: 524_288,
  /** The index of a token in the vocabulary, in `sample`. */
  token: 1_048_576,
  /** A part of an id, a position, a size of a step or of the bits of a float: some of its bits, a quotient or a rest. */
  part: 2_097_152,
  /** A float that was made of a part of the bits of a float. */
  bitNumber: 4_194_304,
} as const;

/** What has parts that tell one value from others. */
const divisible = trait.record | trait.identity | trait.bits | trait.stepSize | trait.token;
const hasParts = (traits: number): boolean => (traits & divisible) !== 0 && (traits & trait.logit) === 0;

/** What tells one input of a kernel from another, once it is part of a condition or of an index into a table. */
const selecting = (traits: number): number =>
  traits &
  (trait.record |
    trait.identity |
    trait.float |
    trait.bits |
    trait.logit |
    trait.stepSize |
    trait.token |
    trait.selected)
    ? trait.selected | (traits & trait.part)
    : 0;

/** Integers that are not data that a kernel computes with. */
const indexed = trait.place | trait.size | trait.record;
const wholeRecords = trait.tokenRecord | trait.sampleRecord;
/** What arithmetic keeps. */
const kept =
  indexed |
  trait.float |
  trait.logit |
  trait.bits |
  trait.offset |
  trait.difference |
  trait.quotient |
  trait.floatOffset |
  trait.asFloat |
  trait.floatBits |
  trait.floatHash |
  trait.nearOffset |
  trait.counter |
  trait.stepSize |
  trait.selected |
  trait.token |
  trait.part |
  trait.bitNumber;

/** Words of a record of `samples` that identify it: slot, seed and position. Its row is the row of the step. */
const identifyingSampleWords: ReadonlySet<number> = new Set([1, 3, 4]);
const sampleWords = 12;
const identityBuffers: ReadonlySet<string> = new Set(['page_table', 'sampled']);
/** Buffers whose integers are packed weights, keys or values. */
const packedBuffers: ReadonlySet<string> = new Set(
  [...contracts.values()].flatMap(({ bindings }) =>
    bindings.flatMap(({ name, dtype }) => (dtype === 'weights' || dtype === 'f16' ? [name] : [])),
  ),
);
export const comparisons: ReadonlySet<string> = new Set(['==', '!=', '<', '>', '<=', '>=']);

interface Node {
  traits: number;
  /** What depends on it. */
  readonly users: Node[];
  compute?: () => number;
}

/** Expressions of a function, in the order of the source. */
export interface FunctionExpressions {
  readonly fn: FunctionInfo;
  readonly expressions: readonly Expression[];
  /** Those that a `switch` selects by. */
  readonly selectors: ReadonlySet<Expression>;
}

export class ValueFlow {
  readonly functions: readonly FunctionExpressions[];
  readonly #reflection: Reflection;
  readonly #contract: Contract | undefined;
  /** Variables by the name of the op's buffer. */
  readonly #buffers: ReadonlyMap<string, Variable>;
  readonly #functionNames: ReadonlyMap<string, FunctionInfo>;
  readonly #placeMembers: ReadonlySet<string>;
  readonly #keys = new Map<string, Node>();
  readonly #nodes = new Map<Expression, Node>();
  readonly #constants = new Map<Expression, number>();
  readonly #moduleConstants = new Map<string, number | undefined>();
  /** Words of the records of `samples` by the name of a member. */
  readonly #sampleWords = new Map<string, number>();
  /** Nodes of which a part has changed. */
  readonly #changed: Node[] = [];

  /** @param contract contract of the op, whose names of buffers count; without it, those of the variables */
  constructor(reflection: Reflection, contract?: Contract) {
    this.#reflection = reflection;
    this.#contract = contract;
    this.#buffers = new Map(reflection.variables.map((one) => [this.#bufferOf(one), one]));
    this.#functionNames = new Map(reflection.functions.map((fn) => [fn.name, fn]));
    const places = readPlaces(reflection);
    this.#placeMembers = places.members;
    for (const { fn, name } of places.parameters) this.#add(this.#key(name, fn), trait.place);
    for (const variable of reflection.variables) {
      this.#add(this.#key(variable.name), this.#traitsOf(variable));
      const element = this.#bufferOf(variable) === 'samples' ? elementOf(variable.type) : undefined;
      if (element?.kind === 'struct')
        for (const [word, { name }] of element.struct.members.entries()) this.#sampleWords.set(name, word);
    }
    this.functions = reflection.functions.map((fn) => new FunctionReader(this, reflection, fn).read());
    for (let node = this.#changed.pop(); node; node = this.#changed.pop())
      this.#add(node, node.compute?.() ?? 0);
  }

  traitsOf(expression: Expression): number {
    return this.#nodes.get(expression)?.traits ?? 0;
  }

  /** Value of a constant expression; of overrides, the default. */
  constantOf(expression: Expression): number | undefined {
    return this.#constants.get(expression);
  }

  /** Name of the op; undefined without a contract. */
  get op(): string | undefined {
    return this.#contract?.op;
  }

  /** Whether the expression is a value of `token`, in a kernel that also reads the sampled tokens. */
  get readsSampledTokens(): boolean {
    return this.#buffers.has('sampled') && this.#buffers.has('token');
  }

  #bufferOf({ name, binding, isResource }: Variable): string {
    const bound = isResource && binding !== undefined ? this.#contract?.bindings[binding] : undefined;
    return bound?.name ?? name;
  }

  #traitsOf(variable: Variable): number {
    const { space, type, binding } = variable;
    const name = this.#bufferOf(variable);
    if (space === 'uniform')
      return trait.size | (name === 'step' && this.#contract?.tokens === 'any' ? trait.stepSize : 0);
    if (space !== 'storage') return 0;
    const element = elementOf(type);
    const isSingle = element.kind === 'scalar' || element.kind === 'atomic';
    if (name === 'token') return trait.record | (isSingle ? trait.identity : trait.tokenRecord);
    if (name === 'samples') return trait.record | (element.kind === 'struct' ? trait.sampleRecord : 0);
    const scalar = scalarOf(element);
    if (scalar === 'f32' || scalar === 'f16') return trait.float | (name === 'logits' ? trait.logit : 0);
    if (packedBuffers.has(name)) return 0;
    if (name === 'logits') return trait.bits | trait.logit;
    if (binding !== undefined && this.#contract?.bindings[binding]?.dtype === 'f32') return trait.bits;
    return trait.record | (identityBuffers.has(name) ? trait.identity : 0);
  }

  #key(name: string, fn?: FunctionInfo): Node {
    const text = `${fn?.name ?? ''} ${name}`;
    const known = this.#keys.get(text);
    if (known) return known;
    const node: Node = { traits: 0, users: [] };
    this.#keys.set(text, node);
    return node;
  }

  #add(node: Node, traits: number): void {
    if ((node.traits | traits) === node.traits) return;
    node.traits |= traits;
    for (const user of node.users) this.#changed.push(user);
  }

  addTrait(node: Node, one: number): void {
    this.#add(node, one);
  }

  /** Lets a value flow into a variable. */
  flowInto(target: Node, value: Expression): void {
    const source = this.#nodes.get(value);
    if (source) this.#connect(source, target);
  }

  /** Lets a condition decide what a variable is assigned. */
  selectFor(target: Node, condition: Expression): void {
    const source = this.#nodes.get(condition);
    if (source) this.#connect(source, target, selecting);
  }

  #connect(source: Node, target: Node, through: (traits: number) => number = (traits) => traits): void {
    const edge: Node = { traits: 0, users: [] };
    edge.compute = () => {
      this.#add(target, through(source.traits));
      return 0;
    };
    source.users.push(edge);
    this.#changed.push(edge);
  }

  nodeOf(name: string, fn: FunctionInfo, isLocal: boolean): Node {
    return isLocal ? this.#key(name, fn) : this.#key(name);
  }

  /** What the function returns. */
  resultOf(fn: FunctionInfo): Node {
    return this.#key('', fn);
  }

  /** Adds an expression and its parts, parts first. */
  addExpression(root: Expression, fn: FunctionInfo, locals: Locals, list: Expression[]): void {
    const pending: { expression: Expression; isReady: boolean }[] = [{ expression: root, isReady: false }];
    for (let next = pending.pop(); next; next = pending.pop()) {
      const { expression, isReady } = next;
      if (!isReady) {
        pending.push({ expression, isReady: true });
        for (const part of expression.parts.toReversed()) pending.push({ expression: part, isReady: false });
        continue;
      }
      const constant = this.#fold(expression, locals);
      if (constant !== undefined) this.#constants.set(expression, constant);
      const node: Node = { traits: 0, users: [] };
      this.#nodes.set(expression, node);
      list.push(expression);
      for (const part of expression.parts) this.#nodes.get(part)?.users.push(node);
      node.compute = this.#transferOf(expression, fn, locals, node);
      this.#changed.push(node);
    }
  }

  #transferOf(expression: Expression, fn: FunctionInfo, locals: Locals, node: Node): () => number {
    const { kind, text, parts } = expression;
    const [first, second] = parts;
    const of = (part: Expression | undefined): number => (part ? this.traitsOf(part) : 0);
    switch (kind) {
      case 'number':
      case 'other':
        return () => 0;
      case 'name': {
        const source = this.nodeOf(text, fn, locals.names.has(text));
        source.users.push(node);
        return () => source.traits;
      }
      case 'member':
        return () => this.#memberTraits(of(first), text);
      case 'index': {
        const isArray = first?.kind === 'name' && !locals.names.has(first.text);
        if (
          isArray &&
          first.text === this.#buffers.get('samples')?.name &&
          second &&
          this.#isIdentifyingWord(second)
        )
          return () => of(first) | trait.identity;
        const component = second && this.constantOf(second);
        const isTable = !this.#isBuffer(first, locals);
        return () =>
          (isArray ? of(first) : componentTraits(of(first), component)) |
          (isTable ? selecting(of(second)) | (hasParts(of(second)) ? trait.part : 0) : 0);
      }
      case 'unary':
        return () => (text === '!' ? selecting(of(first)) : of(first));
      case 'binary':
        if (comparisons.has(text) || text === '&&' || text === '||')
          return () => selecting(of(first) | of(second));
        return () => {
          const constants = [first && this.constantOf(first), second && this.constantOf(second)] as const;
          const areVariables = constants[0] === undefined && constants[1] === undefined;
          const isProduct = areVariables && (text === '*' || text === '/') && !this.#areSame(first, second);
          const traits = binaryTraits(text, [of(first), of(second)], constants);
          // Divided by a size, or one of its bits: a part of it is left.
          const isPart =
            dividing.has(text) &&
            hasParts(of(first)) &&
            ((areVariables && !hasParts(of(second))) || constants[1] !== undefined);
          return (isProduct ? traits & ~trait.nearOffset : traits) | (isPart ? trait.part : 0);
        };
      case 'call':
        return this.#callTransfer(expression, node);
    }
  }

  /** Whether two expressions are written alike, but for a sign: `-d * d`. */
  #areSame(first: Expression | undefined, second: Expression | undefined): boolean {
    const { tokens } = this.#reflection;
    const [one, other] = [withoutSign(first), withoutSign(second)];
    if (!one || !other || one.to - one.from !== other.to - other.from) return false;
    for (let at = 0; at < one.to - one.from; at++)
      if (tokens[one.from + at]?.text !== tokens[other.from + at]?.text) return false;
    return true;
  }

  /** Whether an expression is a buffer or a part of one, whose contents the inputs of the op are. */
  #isBuffer(expression: Expression | undefined, locals: Locals): boolean {
    const root = expression && rootOf(expression);
    return (
      root !== undefined &&
      !locals.names.has(root.text) &&
      this.#reflection.variables.some(
        ({ name, space }) => name === root.text && (space === 'storage' || space === 'uniform'),
      )
    );
  }

  /** Whether an index of a word of `samples` may be that of an identifying word: `12u * t + 3u`. */
  #isIdentifyingWord({ kind, text, parts }: Expression): boolean {
    const variable = this.#buffers.get('samples');
    if (!variable || elementOf(variable.type).kind !== 'scalar') return false;
    const addend =
      kind === 'binary' && text === '+' ? parts.flatMap((part) => this.constantOf(part) ?? []) : [];
    return addend.length === 0 || identifyingSampleWords.has((addend[0] ?? 0) % sampleWords);
  }

  #memberTraits(base: number, name: string): number {
    if (this.#placeMembers.has(name)) return base | trait.place;
    const plain = base & ~wholeRecords;
    if (base & trait.tokenRecord) return plain | (/^[wa]$/.test(name) ? 0 : trait.identity);
    if (base & trait.sampleRecord) {
      const word = this.#sampleWords.get(name);
      return plain | (word !== undefined && identifyingSampleWords.has(word) ? trait.identity : 0);
    }
    return plain;
  }

  #callTransfer({ text, parts, template = '' }: Expression, node: Node): () => number {
    const callee = this.#functionNames.get(text);
    if (callee) {
      for (const [n, part] of parts.entries()) {
        const name = callee.parameters[n]?.name;
        if (name === undefined) continue;
        const parameter = this.#key(name, callee);
        this.flowInto(parameter, part);
        // What the function writes through a pointer.
        const inner = part.kind === 'unary' && part.text === '&' ? rootOf(part) : undefined;
        const variable = inner && this.#nodes.get(inner);
        if (inner && variable) this.pointedTo.push([parameter, inner]);
      }
      const result = this.resultOf(callee);
      result.users.push(node);
      return () => result.traits;
    }
    const of = (part: Expression | undefined): number => (part ? this.traitsOf(part) : 0);
    const union = (): number => parts.reduce((all, part) => all | this.traitsOf(part), 0);
    const plain = () => union() & ~wholeRecords;
    switch (text) {
      case 'bitcast':
        return /u32|i32|u>|i>|^vec[234][ui]$/.test(template)
          ? () => (plain() & trait.float ? (plain() & ~trait.float) | trait.bits | trait.floatBits : plain())
          : () => {
              const traits = plain();
              const isData = traits & trait.bits || (traits & trait.record && !(traits & trait.identity));
              return isData
                ? (traits & ~(trait.bits | trait.record | trait.floatBits | trait.floatHash)) | trait.float
                : traits;
            };
      case 'bool':
      case 'any':
      case 'all':
        return () => selecting(plain());
      case 'arrayLength':
      case 'subgroupElect':
      case 'subgroupAny':
      case 'subgroupAll':
        return () => 0;
      case 'f32':
      case 'f16':
        return () => {
          const traits = plain();
          if (traits & trait.bits)
            return (
              trait.float |
              (traits & (trait.selected | trait.part)) |
              (traits & trait.part ? trait.bitNumber : 0)
            );
          if (traits & trait.counter) return (traits & ~trait.counter) | trait.place | trait.asFloat;
          return traits & indexed && !(traits & trait.float) ? traits | trait.asFloat : traits;
        };
      case 'u32':
      case 'i32':
        return () => plain() & ~trait.asFloat;
      case 'select':
        return () =>
          parts.slice(0, 2).reduce((all, part) => all | this.traitsOf(part), 0) | selecting(of(parts[2]));
      case 'dot': {
        const isSquare = this.#areSame(parts[0], parts[1]);
        return () => plain() & ~(isSquare ? 0 : trait.nearOffset);
      }
      case 'min':
      case 'max':
      case 'clamp':
        return () => plain() & ~trait.identity;
      case 'fma': {
        const [a, b, c] = parts;
        if (!a || !b || !c) return plain;
        const dropped = this.#areSame(a, b) ? 0 : trait.nearOffset;
        return () =>
          binaryTraits(
            '+',
            [(this.traitsOf(a) | this.traitsOf(b)) & ~dropped, this.traitsOf(c)],
            [undefined, this.constantOf(c)],
          );
      }
      default:
        if (text.startsWith('unpack'))
          return () => plain() | trait.float | (hasParts(plain()) ? trait.part : 0);
        if (bitFunctions.has(text)) return () => plain() | (hasParts(plain()) ? trait.part : 0);
        if (text.startsWith('pack'))
          return () => plain() & ~(trait.float | trait.logit | trait.floatOffset | trait.nearOffset);
        return plain;
    }
  }

  /** Pointers that were passed to functions: what the function writes through them. */
  readonly pointedTo: [parameter: Node, variable: Expression][] = [];

  connectPointers(fn: FunctionInfo, locals: Locals): void {
    for (const [parameter, { text }] of this.pointedTo.splice(0))
      this.#connect(parameter, this.nodeOf(text, fn, locals.names.has(text)));
  }

  #moduleConstant({ text, from, to }: Expression): number | undefined {
    if (this.#moduleConstants.has(text)) return this.#moduleConstants.get(text);
    const value = this.#reflection.evaluate({ from, to });
    this.#moduleConstants.set(text, value);
    return value;
  }

  #fold(expression: Expression, locals: Locals): number | undefined {
    const { kind, text, parts } = expression;
    switch (kind) {
      case 'number':
        return this.#reflection.evaluate(expression);
      case 'name':
        return locals.names.has(text) ? locals.constants.get(text) : this.#moduleConstant(expression);
      case 'unary':
      case 'binary':
      case 'call': {
        const values = parts.flatMap((part) => this.#constants.get(part) ?? []);
        return values.length === parts.length && parts.length > 0 ? foldCall(kind, text, values) : undefined;
      }
      default:
        return undefined;
    }
  }
}

function foldCall(kind: Expression['kind'], text: string, values: readonly number[]): number | undefined {
  const [a = 0, b = 0] = values;
  if (kind === 'unary') return text === '-' ? -a : text === '~' ? ~a >>> 0 : undefined;
  if (kind === 'call') {
    if (/^(?:[uif]32|f16|vec[234][uifh]?)$/.test(text))
      return values.every((one) => one === a) ? a : undefined;
    return text === 'min' ? Math.min(...values) : text === 'max' ? Math.max(...values) : undefined;
  }
  switch (text) {
    case '+':
      return a + b;
    case '-':
      return a - b;
    case '*':
      return a * b;
    case '/':
      return b === 0 ? undefined : Number.isInteger(a) && Number.isInteger(b) ? Math.trunc(a / b) : a / b;
    case '%':
      return b === 0 ? undefined : a % b;
    case '&':
      return (a & b) >>> 0;
    case '|':
      return (a | b) >>> 0;
    case '^':
      return (a ^ b) >>> 0;
    case '<<':
      return (a << b) >>> 0;
    case '>>':
      return (a >>> b) >>> 0;
    default:
      return undefined;
  }
}

const withoutSign = (expression: Expression | undefined): Expression | undefined =>
  expression?.kind === 'unary' && expression.text === '-' ? expression.parts[0] : expression;

/** Name at the root of `&a[i].b`. */
function rootOf(expression: Expression): Expression | undefined {
  let root: Expression | undefined = expression;
  while (root && root.kind !== 'name') root = root.parts[0];
  return root;
}

const elementOf = (type: Type): Type => (type.kind === 'array' ? elementOf(type.element) : type);

function scalarOf(type: Type): string | undefined {
  switch (type.kind) {
    case 'scalar':
      return type.name;
    case 'vector':
    case 'matrix':
    case 'atomic':
      return type.element;
    case 'array':
      return scalarOf(type.element);
    case 'struct': {
      const [first] = type.struct.members;
      return first && scalarOf(first.type);
    }
    case 'other':
      return undefined;
  }
}

/** Component of a record that is a vector, or of another vector. */
const componentTraits = (base: number, component: number | undefined): number =>
  base & trait.tokenRecord
    ? (base & ~wholeRecords) | (component === 3 ? 0 : trait.identity)
    : base & ~wholeRecords;

const isPowerOfTwo = (value: number): boolean =>
  Number.isInteger(value) && Number.isInteger(Math.log2(value));
const signBit = 0x8000_0000;
/** Masks of bits of a float that honest kernels test: sign, magnitude, exponent. */
const floatMasks: ReadonlySet<number> = new Set([signBit, 0x7fff_ffff, 0x7f80_0000, 0x8000, 0x7fff, 0x7c00]);
/** A divisor from which on a quotient can tell small values from large ones. */
const minDivisor = 16;
/** Operators that leave a part of a number. */
const dividing: ReadonlySet<string> = new Set(['&', '>>', '<<', '/', '%']);
const bitFunctions: ReadonlySet<string> = new Set([
  'countOneBits',
  'countLeadingZeros',
  'countTrailingZeros',
  'firstLeadingBit',
  'firstTrailingBit',
  'extractBits',
  'reverseBits',
  'dot4U8Packed',
  'dot4I8Packed',
]);
/** From here on, an odd factor mixes bits: that of a hash. */
const minMixer = 1 << 16;

/** Up to here, a mask takes what an index has within a vector or a word. */
const maxLowMask = 7;

function binaryTraits(
  operator: string,
  [left, right]: readonly [number, number],
  [a, b]: readonly [number | undefined, number | undefined],
): number {
  const constant = a ?? b;
  const both = left | right;
  const base = both & kept;
  if (constant === undefined) {
    if (operator !== '^' && operator !== '-') return base;
    const areIntegers =
      (both & (trait.float | trait.bits)) === 0 && (left & indexed) !== 0 && (right & indexed) !== 0;
    // What is left of a row or of a range is often tested for 0.
    const isRest = operator === '-' && (both & trait.place) !== 0;
    return base | (areIntegers && !isRest ? trait.difference : 0);
  }
  const traits = base | (both & trait.identity);
  const isFloat = (both & trait.float) !== 0;
  const isIndexed = !isFloat && (both & indexed) !== 0;
  const shifted = isIndexed ? trait.offset : isFloat ? trait.floatOffset | trait.nearOffset : 0;
  const size = Math.abs(constant);
  switch (operator) {
    case '-':
      return traits | (size > 1 || (isIndexed && !Number.isInteger(constant)) ? shifted : 0);
    case '+':
      // Sums of integers that do not wrap are not 0.
      return (
        traits |
        (isFloat
          ? size > 1
            ? shifted
            : 0
          : constant < -1 || constant >= signBit || !Number.isInteger(constant)
            ? shifted
            : 0)
      );
    case '^':
      return traits | (size > 1 && constant !== signBit && isIndexed ? shifted : 0);
    case '*': {
      const mixes = size >= minMixer && size % 2 === 1;
      if (mixes && both & trait.floatBits) return traits | trait.floatHash;
      return isIndexed && mixes ? (traits & ~(trait.offset | trait.difference)) | trait.bits : traits;
    }
    case '/':
      return (
        (traits & ~trait.identity) | (isIndexed && size >= minDivisor && b !== undefined ? trait.quotient : 0)
      );
    case '>>':
      if (both & trait.bits && constant === 31) return traits & ~(trait.bits | trait.floatBits);
      return (
        (traits & ~trait.identity) |
        (isIndexed && constant >= Math.log2(minDivisor) && b !== undefined ? trait.quotient : 0)
      );
    case '%':
      return traits & ~trait.identity;
    case '&': {
      if (floatMasks.has(constant)) return traits & ~(trait.bits | trait.floatBits);
      if (constant <= maxLowMask)
        return traits & ~(trait.identity | trait.offset | trait.difference | trait.quotient);
      if (isPowerOfTwo(constant + 1)) return traits & ~trait.identity;
      return traits | (both & trait.identity ? trait.offset : 0);
    }
    default:
      return traits;
  }
}

/** Names of a function, and values of those that are constant. */
interface Locals {
  readonly names: ReadonlySet<string>;
  readonly constants: Map<string, number>;
}

/** Reads the statements of a function. */
class FunctionReader {
  readonly #flow: ValueFlow;
  readonly #reflection: Reflection;
  readonly #fn: FunctionInfo;
  readonly #locals: Locals;
  /** Variables that are assigned something else than one number. */
  readonly #varying = new Set<string>();
  readonly #expressions: Expression[] = [];
  readonly #selectors = new Set<Expression>();
  readonly #statements: readonly Statement[];
  /** Conditions of the statements around the current one. */
  readonly #conditions: Expression[] = [];

  constructor(flow: ValueFlow, reflection: Reflection, fn: FunctionInfo) {
    this.#flow = flow;
    this.#reflection = reflection;
    this.#fn = fn;
    const { tokens } = reflection;
    this.#statements = readStatements(tokens, bodyOf(tokens, fn));
    const names = new Set(fn.parameters.map(({ name }) => name));
    const collect = (statement: Statement): void => {
      if (statement.kind === 'declare') names.add(tokens[statement.name]?.text ?? '');
      if (statement.kind === 'assign') {
        const { operator, value, target } = statement;
        const isNumber = value.to === value.from + 1 && tokens[value.from]?.kind === 'number';
        if (operator !== '=' || !isNumber) this.#varying.add(tokens[this.#rootAt(target)]?.text ?? '');
      }
      childrenOf(statement).forEach(collect);
    };
    this.#statements.forEach(collect);
    this.#locals = { names, constants: new Map() };
  }

  read(): FunctionExpressions {
    for (const statement of this.#statements) this.#visit(statement);
    this.#flow.connectPointers(this.#fn, this.#locals);
    return { fn: this.#fn, expressions: this.#expressions, selectors: this.#selectors };
  }

  #rootAt({ from, to }: Range): number {
    const { tokens } = this.#reflection;
    let at = from;
    while (at < to && tokens[at]?.kind !== 'name') at++;
    return at;
  }

  #add(range: Range | undefined): Expression | undefined {
    const expression = range && parseExpression(this.#reflection.tokens, range);
    if (expression) this.#addTree(expression);
    return expression;
  }

  #addTree(expression: Expression): void {
    this.#flow.addExpression(expression, this.#fn, this.#locals, this.#expressions);
  }

  #visit(statement: Statement): void {
    const { tokens } = this.#reflection;
    switch (statement.kind) {
      case 'declare': {
        const name = tokens[statement.name]?.text ?? '';
        const value = this.#add(statement.value);
        if (!value) break;
        this.#flow.flowInto(this.#flow.nodeOf(name, this.#fn, true), value);
        const constant = this.#flow.constantOf(value);
        if (constant !== undefined && !this.#varying.has(name)) this.#locals.constants.set(name, constant);
        else this.#locals.constants.delete(name);
        break;
      }
      case 'assign':
        this.#assign(statement);
        break;
      case 'return': {
        const value = this.#add(statement.value);
        if (value) this.#flow.flowInto(this.#flow.resultOf(this.#fn), value);
        break;
      }
      case 'call':
        this.#add(statement.call);
        break;
      case 'switch': {
        const selector = this.#add(statement.condition);
        if (selector) this.#selectors.add(selector);
        this.#visitUnder(selector, childrenOf(statement));
        return;
      }
      case 'while':
        this.#visitUnder(this.#add(statement.condition), childrenOf(statement));
        return;
      case 'break_if':
        this.#add(statement.condition);
        break;
      case 'for':
        for (const child of statement.init) this.#visit(child);
        this.#markCounters(statement);
        this.#visitUnder(this.#add(statement.condition), statement.body);
        for (const child of statement.update) this.#visit(child);
        return;
      case 'if': {
        // An `else` depends on the conditions before it.
        const before = this.#conditions.length;
        for (const { condition, body } of statement.branches) {
          const added = this.#add(condition);
          if (added) this.#conditions.push(added);
          for (const child of body) this.#visit(child);
        }
        this.#conditions.length = before;
        return;
      }
      default:
    }
    for (const child of childrenOf(statement)) this.#visit(child);
  }

  #visitUnder(condition: Expression | undefined, body: readonly Statement[]): void {
    if (condition) this.#conditions.push(condition);
    for (const child of body) this.#visit(child);
    if (condition) this.#conditions.pop();
  }

  /** Marks the counter of a loop whose bound is no constant. */
  #markCounters({ init, condition }: Extract<Statement, { kind: 'for' }>): void {
    const { tokens } = this.#reflection;
    const bound = condition && parseExpression(tokens, condition);
    const isConstant = bound?.parts.some((part) => this.#reflection.evaluate(part) !== undefined) ?? true;
    const isToken =
      this.#flow.op === 'sample' &&
      condition !== undefined &&
      tokens.slice(condition.from, condition.to).some(({ text }) => text === 'vocabulary');
    for (const child of init)
      if (child.kind === 'declare' && !isConstant)
        this.#flow.addTrait(
          this.#flow.nodeOf(tokens[child.name]?.text ?? '', this.#fn, true),
          trait.counter | (isToken ? trait.token : 0),
        );
  }

  #assign({ target, operator, value }: Extract<Statement, { kind: 'assign' }>): void {
    const root = this.#reflection.tokens[this.#rootAt(target)]?.text ?? '';
    const targetNode = this.#flow.nodeOf(root, this.#fn, this.#locals.names.has(root));
    for (const condition of this.#conditions) this.#flow.selectFor(targetNode, condition);
    const left = parseExpression(this.#reflection.tokens, target);
    const right = parseExpression(this.#reflection.tokens, value);
    if (operator === '=' || !left || !right) {
      if (left) this.#addTree(left);
      if (!right) return;
      this.#addTree(right);
      this.#flow.flowInto(targetNode, right);
      return;
    }
    const result: Expression = {
      kind: 'binary',
      text: operator.slice(0, -1),
      parts: [left, right],
      from: target.from,
      to: value.to,
    };
    this.#addTree(result);
    this.#flow.flowInto(targetNode, result);
  }
}
