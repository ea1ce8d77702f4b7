/**
 * Finds conditions that tell one size, position, row or value from others without a comparison with a constant: by arithmetic, by bits of
 * data, or by comparing data, positions and sizes with one another.
 */
import type { Contract } from '../../../kernels/contracts.ts';
import { sourceTextOf } from './constants.ts';
import type { Expression } from './expressions.ts';
import { readDeclarations } from './declarations.ts';
import { bodyOf, type FunctionInfo, type Reflection } from './reflect.ts';
import { childrenOf, readStatements, type Statement } from './statements.ts';
import { locationOf, type Range, type SourceLocation } from './tokens.ts';
import type { Type } from './types.ts';
import { comparisons, trait, ValueFlow } from './value-flow.ts';

export interface HiddenCondition {
  /**
   * `constant`: it amounts to a comparison with a constant; `data`: data, positions or sizes are compared with one another; `inexact`:
   * an integer becomes a float and an integer again, which tells large ones from small ones.
   */
  readonly kind: 'constant' | 'data' | 'inexact';
  /** What is compared, as written. */
  readonly compared: string;
  /** What it is compared with, or the function that tells values apart. */
  readonly how: string;
  /** A float of a buffer, whose magnitude honest kernels compare too. */
  readonly isMagnitude: boolean;
  readonly location: SourceLocation;
}

/** From here on, a constant stands for infinity, as bits, or for no value. */
const minSentinel = 0x7f80_0000;
const indexed = trait.place | trait.size | trait.record;
/** Values that are 0 only where they are equal to something, and those that are 0 below a bound. */
const isolating = trait.offset | trait.difference;
const anyHidden = isolating | trait.quotient | trait.identity | trait.bits;

/** Functions that map all values but a few to one, or nearly. */
const collapsing: ReadonlySet<string> = new Set([
  'saturate',
  'sign',
  'bool',
  'countOneBits',
  'countLeadingZeros',
  'countTrailingZeros',
  'firstLeadingBit',
  'firstTrailingBit',
]);
/** Functions that are nearly 0, or 1, except near one value. */
const vanishing: ReadonlySet<string> = new Set(['exp', 'exp2', 'tanh', 'pow']);
/** Functions of which powers, or sums of several, are nearly 0 except near one value. */
const periodic: ReadonlySet<string> = new Set(['cos', 'sin', 'tan', 'cosh', 'sinh', 'fract', 'acos', 'asin']);
/** Masks that keep the low bits of a size: what is larger wraps. */
const sizeMasks = { least: 0x1ff, most: 0x7fff };
/** Functions whose results are far apart on both sides of 0, or at it: as steep as a quotient. */
const steep: ReadonlySet<string> = new Set([
  'normalize',
  'length',
  'distance',
  'atan',
  'atan2',
  'inverseSqrt',
  'log',
  'log2',
  'faceForward',
  'refract',
]);
/** Largest exponent of a power that is no threshold: of a fraction, larger ones are 0 except near 1. */
const maxExponent = 16;
/** Functions of a sum of parts that are nearly constant except near one value. */
const shaping: ReadonlySet<string> = new Set([
  ...collapsing,
  ...vanishing,
  ...periodic,
  ...steep,
  'exp',
  'step',
  'smoothstep',
  'floor',
  'ceil',
  'sqrt',
]);
const bounding: ReadonlySet<string> = new Set(['min', 'max', 'clamp']);
const stepping: ReadonlySet<string> = new Set(['step', 'smoothstep']);

const isZeroOrOne = (value: number | undefined): value is number => value === 0 || value === 1;

/**
 * Sorted by location. Expects source that Tint accepts.
 * @param contract contract of the op that the kernel computes; built-in kernels have none
 */
export function findHiddenConditions(reflection: Reflection, contract?: Contract): HiddenCondition[] {
  const { tokens, source } = reflection;
  const flow = new ValueFlow(reflection, contract);
  const found: HiddenCondition[] = [];
  const textOf = (expression: Expression): string => sourceTextOf(source, tokens, expression);
  const report = (
    kind: HiddenCondition['kind'],
    compared: Expression,
    how: string,
    isMagnitude = false,
  ): void => {
    found.push({
      kind,
      compared: textOf(compared),
      how,
      isMagnitude,
      location: locationOf(tokens, compared),
    });
  };

  const checkConstant = (operand: Expression, other: Expression, operator: string): void => {
    const value = flow.constantOf(other);
    if (value === undefined) return;
    const traits = flow.traitsOf(operand);
    const isExact = operator === '==' || operator === '!=';
    const isSentinel = Math.abs(value) >= minSentinel;
    if (traits & trait.identity && (isZeroOrOne(value) || isSentinel)) {
      if (!(isSentinel && flow.readsSampledTokens)) report('constant', operand, `compared with ${value}`);
    } else if (!isZeroOrOne(value)) return;
    else if (traits & (trait.offset | trait.quotient)) report('constant', operand, `compared with ${value}`);
    else if (traits & trait.floatOffset)
      report('constant', operand, `compared with ${value}`, !(traits & trait.record));
    else if (traits & trait.difference && isExact) report('data', operand, `compared with ${value}`);
    else if (traits & trait.bits && isExact && !(traits & trait.logit))
      report('constant', operand, `compared with ${value}`);
  };

  const checkEqual = (left: Expression, right: Expression): void => {
    const [a, b] = [flow.traitsOf(left), flow.traitsOf(right)];
    const both = a | b;
    const areSizes = (one: number): boolean =>
      (one & trait.size) !== 0 && (one & ~trait.size & indexed) === 0;
    const isTie = (both & trait.logit) !== 0;
    if (both & (trait.float | trait.bits)) {
      if (a & (trait.float | trait.bits) && b & (trait.float | trait.bits) && !isTie)
        report('data', left, `compared with ${textOf(right)}`);
    } else if (both & trait.record) report('data', left, `compared with ${textOf(right)}`);
    else if (both & trait.size && (areSizes(a) || areSizes(b)) && a & indexed && b & indexed)
      report('data', left, `compared with ${textOf(right)}`);
  };

  /** Whether a value is a float that was made of integers of positions or sizes alone, perhaps packed to fewer bits in between. */
  const isRounded = (value: Expression): boolean => {
    const traits = flow.traitsOf(value);
    if (traits & trait.asFloat && !(traits & trait.float)) return true;
    const [inner] = value.parts;
    const isPart =
      value.kind === 'member' || value.kind === 'index' || /^(?:unpack|round|floor|ceil)/.test(value.text);
    return inner !== undefined && isPart && isRounded(inner);
  };

  /** Whether two numbers are parts of ids, positions or bits, and not two results of data: their product selects. */
  const areParts = (left: Expression, right: Expression): boolean => {
    const [a, b] = [flow.traitsOf(left), flow.traitsOf(right)];
    const both = a & b;
    const areNumbers = (both & trait.bitNumber) !== 0 && flow.op !== 'sample';
    return (
      contract !== undefined &&
      (both & trait.part) !== 0 &&
      ((both & trait.float) === 0 || areNumbers) &&
      ((a | b) & trait.logit) === 0
    );
  };

  const areSame = ([a, b]: readonly Expression[]): boolean =>
    a !== undefined && b !== undefined && textOf(a) === textOf(b);
  const checkCall = (call: Expression): void => {
    const { text, parts } = call;
    const variable = parts.filter((part) => flow.constantOf(part) === undefined);
    const constants = parts.flatMap((part) => flow.constantOf(part) ?? []);
    const traits = variable.reduce((all, part) => all | flow.traitsOf(part), 0);
    const [base, exponent] = parts;
    if (text === 'pow' && base && exponent && variable.includes(base)) {
      if (Math.abs(flow.constantOf(exponent) ?? 0) > maxExponent && traits & (trait.float | indexed))
        report('constant', base, `raised to ${textOf(exponent)}`);
    }
    if ((text === 'u32' || text === 'i32') && base && isRounded(base))
      report('inexact', base, `converted to ${text}`);
    const [argument] = variable;
    if (!argument) return;
    const isPart = (traits & trait.part) !== 0 && (traits & (trait.float | trait.logit)) === 0;
    if (isPart && shaping.has(text) && !collapsing.has(text))
      report('constant', argument, `an argument of ${text}`);
    if (vanishing.has(text) && traits & trait.nearOffset)
      report('constant', argument, `an argument of ${text}`);
    if (/^(?:f32|f16|vec[234](?:f|h|<f\d+>)?)$/.test(text) && traits & trait.floatHash)
      report('data', argument, 'a hash of a float as a number');
    if (traits & trait.float && !(traits & trait.offset)) return;
    const bounds = traits & trait.float ? constants.some(isZeroOrOne) : constants.length > 0;
    const tells =
      (collapsing.has(text) && traits & anyHidden) ||
      (vanishing.has(text) && traits & trait.offset && !(traits & trait.float)) ||
      (steep.has(text) && traits & isolating && !(traits & trait.float)) ||
      (periodic.has(text) && traits & trait.offset && !(traits & trait.float)) ||
      (text.startsWith('dot4') && traits & isolating && variable.length === 2 && areSame(variable)) ||
      (stepping.has(text) && traits & indexed && constants.length > 0) ||
      (bounding.has(text) && bounds && traits & trait.offset) ||
      (bounding.has(text) && text !== 'max' && constants.some((one) => one === 1) && traits & anyHidden);
    if (tells) report('constant', argument, `an argument of ${text}`);
  };

  for (const { fn, expressions, selectors } of flow.functions) {
    const tables = tablesOf(reflection, fn);
    for (const expression of expressions) {
      const { kind, text, parts } = expression;
      const [left, right] = parts;
      if (kind === 'call') checkCall(expression);
      else if (kind === 'index' && left?.kind === 'name' && right && tables.has(left.text)) {
        const isKnown = flow.constantOf(right) !== undefined;
        if (!isKnown && flow.traitsOf(right) & (trait.place | trait.size | trait.record | trait.identity))
          report('constant', right, `an index into ${left.text}, a table of the kernel`);
      } else if (kind === 'binary' && left && right) {
        if (comparisons.has(text)) {
          checkConstant(left, right, text);
          checkConstant(right, left, text);
          const areVariable = flow.constantOf(left) === undefined && flow.constantOf(right) === undefined;
          if ((text === '==' || text === '!=') && areVariable) checkEqual(left, right);
        } else if (text === '/' || text === '%') {
          // A quotient of shifted values is 0 or 1 except near one of them. The difference of two sizes alone is a count.
          const traits = flow.traitsOf(right);
          const isSum =
            right.kind === 'binary' && right.parts.some((part) => flow.constantOf(part) !== undefined);
          const isPart = (traits & trait.part) !== 0 && flow.constantOf(right) === undefined;
          const tells = traits & trait.offset || (traits & trait.difference && isSum) || isPart;
          if (tells && !(traits & trait.float)) report('constant', right, `a divisor of ${textOf(left)}`);
        } else if ((text === '*' || text === '&') && areParts(left, right)) {
          report('constant', left, `combined with ${textOf(right)}`);
        } else if (text === '*' && textOf(left) === textOf(right)) {
          const traits = flow.traitsOf(left);
          // The square of a size of the model is a size.
          const isSize = (traits & indexed) === trait.size && !(traits & (trait.asFloat | trait.offset));
          if (traits & indexed && !isSize && !(traits & (trait.float | trait.bits)))
            report('constant', left, 'multiplied by itself');
        } else if (text === '&') {
          for (const [value, mask] of [
            [left, flow.constantOf(right)],
            [right, flow.constantOf(left)],
          ] as const) {
            const isWrap = mask !== undefined && mask >= sizeMasks.least && mask <= sizeMasks.most;
            const traits = flow.traitsOf(value);
            if (isWrap && Number.isInteger(Math.log2(mask + 1)) && traits & indexed && !(traits & trait.bits))
              report('constant', value, `masked with ${mask}`);
          }
        } else if (text === '>>' && (flow.constantOf(right) ?? 0) >= 8) {
          const traits = flow.traitsOf(left);
          if (traits & trait.offset && !(traits & trait.bits))
            report('constant', left, `shifted by ${textOf(right)}`);
        }
      }
      if (selectors.has(expression) && flow.traitsOf(expression) & anyHidden)
        report('constant', expression, 'the selector of a switch');
    }
  }
  return found.sort((a, b) => a.location.line - b.location.line || a.location.column - b.location.column);
}

/** Elements that an index reaches in the cases, whatever it is made of. */
const maxReached = 32;

/** Arrays of an invocation's own, or of constants, with more than a few elements: they can have another value where no case is. */
function tablesOf(reflection: Reflection, fn: FunctionInfo): ReadonlySet<string> {
  const { tokens } = reflection;
  const tables = new Set(
    reflection.variables
      .filter(({ space, type }) => space === 'private' && isTable(type))
      .map(({ name }) => name),
  );
  const isTableAt = (type: Range | undefined, value: Range | undefined): boolean => {
    const range = type ?? value;
    return range !== undefined && tokens[range.from]?.text === 'array' && isTable(reflection.typeAt(range));
  };
  for (const [name, { type, value }] of readDeclarations(tokens).constants)
    if (isTableAt(type, value)) tables.add(name);
  const visit = (statement: Statement): void => {
    if (statement.kind === 'declare' && isTableAt(statement.type, statement.value))
      tables.add(tokens[statement.name]?.text ?? '');
    childrenOf(statement).forEach(visit);
  };
  readStatements(tokens, bodyOf(tokens, fn)).forEach(visit);
  return tables;

  function isTable(type: Type): boolean {
    if (type.kind !== 'array') return false;
    const count = type.count && reflection.evaluate(type.count);
    return count === undefined || count > maxReached;
  }
}
