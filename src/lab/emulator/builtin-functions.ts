/** WGSL's numeric built-in functions, as JavaScript source. Operations between invocations are in `sync-functions.ts`. */
import { EmulationError } from './emulation-error.ts';
import { rounded } from './numerics.ts';
import {
  commonElement,
  type Helpers,
  mapComponents,
  materialize,
  type Value,
  valueOf,
  withElement,
} from './values.ts';
import { concreteElement, type ElementName, elementOf, scalar, u32, vector } from './value-types.ts';

/** Source of a function of scalars; its result is rounded to the type of the arguments. */
type ScalarFunction = (element: ElementName, ...args: string[]) => string;

const isFloat = (element: ElementName): boolean => element === 'f32' || element === 'f16';
const math =
  (name: string): ScalarFunction =>
  (element, ...args) =>
    rounded(element, `Math.${name}(${args.join(', ')})`);
const runtime =
  (name: string): ScalarFunction =>
  (element, ...args) =>
    isFloat(element)
      ? rounded(element, `R.${name}(${args.join(', ')})`)
      : `R.${name}_${element}(${args.join(', ')})`;
const minimum: ScalarFunction = (_, a, b) => `R.min(${a}, ${b})`;
const maximum: ScalarFunction = (_, a, b) => `R.max(${a}, ${b})`;

/** Functions that apply to each component. All arguments and the result have one element type. */
const componentFunctions: Readonly<Record<string, ScalarFunction>> = {
  ...Object.fromEntries(
    'acos acosh asin asinh atan atan2 atanh ceil cos cosh exp floor log log2 pow sin sinh sqrt tan tanh trunc'
      .split(' ')
      .map((name) => [name, math(name)]),
  ),
  abs: (element, a = '') =>
    element === 'u32' ? a : element === 'i32' ? `(Math.abs(${a}) | 0)` : `Math.abs(${a})`,
  clamp: (_, a, low, high) => `R.min(R.max(${a}, ${low}), ${high})`,
  countLeadingZeros: (element, a = '') => rounded(element, `Math.clz32(${a})`),
  countOneBits: runtime('countOneBits'),
  countTrailingZeros: runtime('countTrailingZeros'),
  degrees: (element, a) => rounded(element, `${a} * ${180 / Math.PI}`),
  exp2: (element, a) => rounded(element, `2 ** ${a}`),
  firstLeadingBit: runtime('firstLeadingBit'),
  firstTrailingBit: runtime('firstTrailingBit'),
  fma: (element, a, b, c) => rounded(element, `${a} * ${b} + ${c}`),
  fract: (element, a) => rounded(element, `${a} - Math.floor(${a})`),
  inverseSqrt: (element, a) => rounded(element, `1 / Math.sqrt(${a})`),
  max: maximum,
  min: minimum,
  mix: (element, a, b, t) => rounded(element, `${a} * (1 - ${t}) + ${b} * ${t}`),
  quantizeToF16: (_, a) => `hr(${a})`,
  radians: (element, a) => rounded(element, `${a} * ${Math.PI / 180}`),
  reverseBits: runtime('reverseBits'),
  round: (_, a) => `R.roundEven(${a})`,
  saturate: (_, a) => `R.min(R.max(${a}, 0), 1)`,
  sign: (_, a) => `Math.sign(${a})`,
  smoothstep: runtime('smoothstep'),
  step: (_, edge, a) => `(${edge} <= ${a} ? 1 : 0)`,
};
/** Functions whose offset and count are u32 whatever the type is. */
const bitFieldFunctions: ReadonlySet<string> = new Set(['extractBits', 'insertBits']);

/** Functions of 32-bit words: types of the argument and of the result. */
const packingFunctions: Readonly<Record<string, readonly [from: ElementName, width: number] | 'unpack'>> = {
  pack2x16float: ['f32', 2],
  pack2x16snorm: ['f32', 2],
  pack2x16unorm: ['f32', 2],
  pack4x8snorm: ['f32', 4],
  pack4x8unorm: ['f32', 4],
  pack4xI8: ['i32', 4],
  pack4xI8Clamp: ['i32', 4],
  pack4xU8: ['u32', 4],
  pack4xU8Clamp: ['u32', 4],
};
const unpackingFunctions: Readonly<Record<string, readonly [to: ElementName, width: number]>> = {
  unpack2x16float: ['f32', 2],
  unpack2x16snorm: ['f32', 2],
  unpack2x16unorm: ['f32', 2],
  unpack4x8snorm: ['f32', 4],
  unpack4x8unorm: ['f32', 4],
  unpack4xI8: ['i32', 4],
  unpack4xU8: ['u32', 4],
};

const sumCode = (element: ElementName, terms: readonly string[]): string =>
  terms.reduce((sum, term) => rounded(element, `${sum} + ${term}`));

/** Value of a call; undefined when no numeric built-in function has this name. */
export function builtinCall(helpers: Helpers, name: string, given: readonly Value[]): Value | undefined {
  const element = concreteElement(commonElement(given));
  const all = () => given.map((value) => withElement(helpers, value, element));
  const perComponent = componentFunctions[name];
  if (perComponent)
    return mapComponents(
      helpers,
      `${name}_${element}`,
      all(),
      element,
      (...codes) => `(${perComponent(element, ...codes)})`,
    );
  if (bitFieldFunctions.has(name)) {
    const args = given.map((value) => materialize(helpers, value));
    const own = concreteElement(elementOf((args[0] as Value).type) ?? 'u32');
    return mapComponents(
      helpers,
      `${name}_${own}`,
      args,
      own,
      (...codes) => `R.${name}_${own}(${codes.join(', ')})`,
    );
  }
  const packing = packingFunctions[name];
  if (packing) {
    const [from] = packing as readonly [ElementName, number];
    const arg = withElement(helpers, given[0] as Value, from);
    return valueOf(u32, `R.${name}(${arg.code})`);
  }
  const unpacking = unpackingFunctions[name];
  if (unpacking) {
    const arg = withElement(helpers, given[0] as Value, 'u32');
    return valueOf(vector(unpacking[1], unpacking[0]), `R.${name}(${arg.code})`);
  }
  switch (name) {
    case 'select': {
      const [no, yes, condition] = given as [Value, Value, Value];
      const own = concreteElement(commonElement([no, yes]));
      const [a, b] = [withElement(helpers, no, own), withElement(helpers, yes, own)];
      if (condition.type.kind === 'scalar') {
        // Both operands are evaluated: a call among them may be one between invocations.
        return valueOf(a.type, `R.select(${a.code}, ${b.code}, ${condition.code})`);
      }
      return mapComponents(
        helpers,
        `select_${own}`,
        [a, b, condition],
        own,
        (x, y, c) => `(${c} ? ${y} : ${x})`,
      );
    }
    case 'all':
    case 'any': {
      const [arg] = given as [Value];
      if (arg.type.kind === 'scalar') return arg;
      return valueOf(scalar('bool'), `${arg.code}.${name === 'all' ? 'every' : 'some'}(Boolean)`);
    }
    case 'dot': {
      const [a, b] = all() as [Value, Value];
      if (a.type.kind !== 'vector') throw new EmulationError('dot of scalars');
      const { width } = a.type;
      const helper = helpers.define(`dot_${width}_${element}`, () => {
        const products = Array.from({ length: width }, (_, i) =>
          isFloat(element) ? rounded(element, `a[${i}] * b[${i}]`) : `Math.imul(a[${i}], b[${i}])`,
        );
        return `(a, b) => ${sumCode(element, products)}`;
      });
      return valueOf(scalar(element), `${helper}(${a.code}, ${b.code})`);
    }
    case 'cross': {
      const [a, b] = all() as [Value, Value];
      const helper = helpers.define(`cross_${element}`, () => {
        const part = (i: number, j: number) =>
          rounded(
            element,
            `${rounded(element, `a[${i}] * b[${j}]`)} - ${rounded(element, `a[${j}] * b[${i}]`)}`,
          );
        return `(a, b) => [${part(1, 2)}, ${part(2, 0)}, ${part(0, 1)}]`;
      });
      return valueOf(a.type, `${helper}(${a.code}, ${b.code})`);
    }
    case 'length':
    case 'distance':
    case 'normalize': {
      const args = all() as [Value, Value?];
      const code = `R.${name}(${args.map((arg) => arg?.code).join(', ')})`;
      if (name === 'normalize') return valueOf(args[0].type, `${code}.map((v) => ${rounded(element, 'v')})`);
      return valueOf(scalar(element), rounded(element, code));
    }
    case 'dot4I8Packed':
    case 'dot4U8Packed': {
      const [a, b] = given.map((value) => withElement(helpers, value, 'u32')) as [Value, Value];
      return valueOf(scalar(name === 'dot4I8Packed' ? 'i32' : 'u32'), `R.${name}(${a.code}, ${b.code})`);
    }
    case 'transpose': {
      const [{ type, code }] = all() as [Value];
      if (type.kind !== 'matrix') throw new EmulationError('transpose of no matrix');
      const strideBytes = (type.columns === 2 ? 2 : 4) * (element === 'f16' ? 2 : 4);
      return valueOf(
        { ...type, columns: type.rows, rows: type.columns, strideBytes },
        `R.transpose(${code})`,
      );
    }
    default:
      return undefined;
  }
}
