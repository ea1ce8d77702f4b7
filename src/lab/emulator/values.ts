/** Compiled expressions: JavaScript source with its WGSL type. */
import { EmulationError } from './emulation-error.ts';
import { binaryCode, convertCode } from './numerics.ts';
import {
  concrete,
  type ElementName,
  elementOf,
  isAbstract,
  scalar,
  type ValueType,
  vector,
} from './value-types.ts';

/** A part of a variable of the workgroup, storage or uniform address space. */
export interface MemoryReference {
  readonly kind: 'memory';
  readonly memory: string;
  /** Source of the offset in bytes. */
  readonly address: string;
  readonly space: string;
  /** Index of the token where the expression begins that reads or writes it; a number or source of one. */
  readonly site: number | string;
}

/** Where a value is stored. `local`: function and private variables, which are JavaScript values. */
export type Reference =
  | {
      readonly kind: 'local';
      readonly code: string;
      readonly container?: readonly [object: string, key: string];
    }
  | MemoryReference;

export interface Value {
  readonly code: string;
  readonly type: ValueType;
  /** Value of a scalar that is known when the kernel is compiled. */
  readonly constant?: number | boolean;
  readonly reference?: Reference;
  /** Whether another variable may hold the same JavaScript array. */
  readonly isShared?: boolean;
}

export const valueOf = (type: ValueType, code: string): Value => ({ code, type });

export function constantOf(type: ValueType, constant: number | boolean): Value {
  const code = Object.is(constant, -0) ? '-0' : String(constant);
  return { type, constant, code: typeof constant === 'number' && constant < 0 ? `(${code})` : code };
}

const isComposite = (type: ValueType): boolean => type.kind !== 'scalar' && type.kind !== 'pointer';

/** Source of a value that no other variable holds. */
export const ownedCode = ({ code, type, isShared = false }: Value): string =>
  isShared && isComposite(type) ? (type.kind === 'vector' ? `${code}.slice()` : `R.clone(${code})`) : code;

/** Named JavaScript functions that compiled kernels use, created on first use. */
export class Helpers {
  readonly isTraced: boolean;
  readonly #sources = new Map<string, string>();

  constructor(isTraced: boolean) {
    this.isTraced = isTraced;
  }

  /** @param body source of a function expression */
  define(name: string, body: () => string): string {
    if (!this.#sources.has(name)) {
      this.#sources.set(name, '');
      this.#sources.set(name, body());
    }
    return name;
  }

  get source(): string {
    return [...this.#sources].map(([name, body]) => `const ${name} = ${body};`).join('\n');
  }
}

const indices = (count: number): number[] => Array.from({ length: count }, (_, i) => i);

/** Applies a function of scalars to each component of its arguments; scalars among them are for all components. */
export function mapComponents(
  helpers: Helpers,
  name: string,
  args: readonly Value[],
  result: ElementName,
  scalarCode: (...codes: string[]) => string,
): Value {
  const width = args.reduce((all, { type }) => (type.kind === 'vector' ? type.width : all), 0);
  if (width === 0) return valueOf(scalar(result), scalarCode(...args.map(({ code }) => code)));
  const kinds = args.map(({ type }) => (type.kind === 'vector' ? 'v' : 's')).join('');
  const helper = helpers.define(`${name}_${width}${kinds}`, () => {
    const names = args.map((_, i) => `a${i}`);
    const component = (i: number) =>
      scalarCode(...args.map(({ type }, n) => (type.kind === 'vector' ? `a${n}[${i}]` : `a${n}`)));
    return `(${names.join(', ')}) => [${indices(width).map(component).join(', ')}]`;
  });
  return valueOf(vector(width, result), `${helper}(${args.map(({ code }) => code).join(', ')})`);
}

/** Converts a value to a type of the same shape: abstract numbers, and explicit conversions of scalars and vectors. */
export function convertTo(helpers: Helpers, value: Value, target: ValueType): Value {
  const { type } = value;
  const from = elementOf(type);
  const to = elementOf(target);
  if (type.kind === 'array' && target.kind === 'array') {
    const element = elementOf(type.element);
    const wanted = elementOf(target.element);
    if (element === undefined || element === wanted) return { ...value, type: target };
    const one = convertTo(helpers, valueOf(type.element, 'v'), target.element);
    return valueOf(target, `${value.code}.map((v) => ${one.code})`);
  }
  if (from === undefined || to === undefined || from === to) return value;
  if (type.kind === 'scalar' && target.kind === 'scalar') {
    if (typeof value.constant === 'number' && to === 'f32')
      return constantOf(target, Math.fround(value.constant));
    if (typeof value.constant === 'number' && (to === 'i32' || to === 'u32') && from === 'int')
      return constantOf(target, to === 'u32' ? value.constant >>> 0 : value.constant | 0);
    return valueOf(target, convertCode(from, to, value.code));
  }
  if (type.kind === 'vector')
    return mapComponents(helpers, `convert_${from}_${to}`, [value], to, (code) =>
      convertCode(from, to, code),
    );
  if (type.kind === 'matrix' && target.kind === 'matrix')
    return valueOf(target, `${value.code}.map((c) => c.map((v) => ${convertCode(from, to, 'v')}))`);
  throw new EmulationError(`a conversion from ${type.kind} to ${target.kind}`);
}

/** Gives a value of an abstract type its default concrete type. */
export const materialize = (helpers: Helpers, value: Value): Value =>
  convertTo(helpers, value, concrete(value.type));

/** Common element type of several values: abstract ones take that of the others. */
export function commonElement(values: readonly Value[]): ElementName {
  const elements = values.flatMap(({ type }) => elementOf(type) ?? []);
  return (
    elements.find((element) => !isAbstract(element)) ??
    (elements.includes('float') ? 'float' : (elements[0] ?? 'int'))
  );
}

export function withElement(helpers: Helpers, value: Value, element: ElementName): Value {
  const { type } = value;
  switch (type.kind) {
    case 'scalar':
    case 'vector':
    case 'matrix':
      return convertTo(helpers, value, { ...type, element });
    default:
      return value;
  }
}

/** Zero value of a type. */
export function zeroCode(type: ValueType): string {
  switch (type.kind) {
    case 'scalar':
      return type.element === 'bool' ? 'false' : '0';
    case 'vector':
      return `[${indices(type.width)
        .map(() => (type.element === 'bool' ? 'false' : '0'))
        .join(', ')}]`;
    case 'matrix':
      return `R.repeat(${type.columns}, () => R.repeat(${type.rows}, () => 0))`;
    case 'array':
      return type.element.kind === 'scalar'
        ? `new Array(${type.count}).fill(${zeroCode(type.element)})`
        : `R.repeat(${type.count}, () => ${zeroCode(type.element)})`;
    case 'struct':
      return `[${type.members.map((member) => zeroCode(member.type)).join(', ')}]`;
    case 'subgroup_matrix':
      return `R.zeroMatrix(${type.columns}, ${type.rows})`;
    default:
      throw new EmulationError(`a zero value of ${type.kind}`);
  }
}

/** `a operator b` with the operands' element type; comparisons give booleans. */
export function binaryValue(
  helpers: Helpers,
  operator: string,
  [left, right]: readonly [Value, Value],
  element: ElementName,
  result: ElementName,
): Value {
  return mapComponents(
    helpers,
    `binary_${operatorNames[operator]}_${element}`,
    [left, right],
    result,
    (a = '', b = '') => binaryCode(operator, element, a, b),
  );
}

const operatorNames: Readonly<Record<string, string>> = {
  '+': 'add',
  '-': 'sub',
  '*': 'mul',
  '/': 'div',
  '%': 'rem',
  '&': 'and',
  '|': 'or',
  '^': 'xor',
  '<<': 'shl',
  '>>': 'shr',
  '==': 'eq',
  '!=': 'ne',
  '<': 'lt',
  '>': 'gt',
  '<=': 'le',
  '>=': 'ge',
  '&&': 'all',
  '||': 'any',
};
