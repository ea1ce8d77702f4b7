/** Types of values in emulated WGSL, with their memory layout. */
import type { Reflection } from '../wgsl/reflect.ts';
import { splitRange, type Range } from '../wgsl/tokens.ts';
import {
  alignOf,
  type CountOf,
  type ScalarName,
  sizeOf,
  strideOf,
  structLayout,
  type Type,
} from '../wgsl/types.ts';
import { EmulationError } from './emulation-error.ts';

/** `int` and `float` are WGSL's abstract numeric types. */
export type ElementName = ScalarName | 'int' | 'float';

export interface StructType {
  readonly kind: 'struct';
  readonly name: string;
  /** `offset` in bytes. */
  readonly members: readonly { readonly name: string; readonly type: ValueType; readonly offset: number }[];
  readonly sizeBytes: number;
}

export type ValueType =
  | { readonly kind: 'scalar'; readonly element: ElementName }
  | { readonly kind: 'vector'; readonly width: number; readonly element: ElementName }
  | {
      readonly kind: 'matrix';
      readonly columns: number;
      readonly rows: number;
      readonly element: ElementName;
      readonly strideBytes: number;
    }
  /** Without `count`: a runtime-sized array. */
  | {
      readonly kind: 'array';
      readonly element: ValueType;
      readonly count: number | undefined;
      readonly strideBytes: number;
    }
  | StructType
  | { readonly kind: 'atomic'; readonly element: ElementName }
  | { readonly kind: 'pointer'; readonly space: string; readonly to: ValueType }
  | SubgroupMatrixType
  | { readonly kind: 'void' };

export interface SubgroupMatrixType {
  readonly kind: 'subgroup_matrix';
  readonly role: 'left' | 'right' | 'result';
  readonly element: ElementName;
  readonly columns: number;
  readonly rows: number;
}

export const scalar = (element: ElementName): ValueType => ({ kind: 'scalar', element });
export const vector = (width: number, element: ElementName): ValueType => ({
  kind: 'vector',
  width,
  element,
});
export const voidType: ValueType = { kind: 'void' };
export const bool = scalar('bool');
export const u32 = scalar('u32');

export const isAbstract = (element: ElementName): element is 'int' | 'float' =>
  element === 'int' || element === 'float';

/** Type that a value of an abstract type gets where nothing else determines it. */
export const concreteElement = (element: ElementName): ElementName =>
  element === 'int' ? 'i32' : element === 'float' ? 'f32' : element;

export function concrete(type: ValueType): ValueType {
  switch (type.kind) {
    case 'scalar':
    case 'vector':
      return { ...type, element: concreteElement(type.element) };
    case 'matrix':
      return { ...type, element: concreteElement(type.element) };
    case 'array':
      return { ...type, element: concrete(type.element) };
    default:
      return type;
  }
}

export const elementOf = (type: ValueType): ElementName | undefined =>
  type.kind === 'scalar' || type.kind === 'vector' || type.kind === 'matrix' ? type.element : undefined;

export const elementBytes = (element: ElementName): number => (element === 'f16' ? 2 : 4);

/** Size in bytes; that of a runtime-sized array is 0. */
export function valueBytes(type: ValueType): number {
  switch (type.kind) {
    case 'scalar':
    case 'atomic':
      return elementBytes(type.element);
    case 'vector':
      return type.width * elementBytes(type.element);
    case 'matrix':
      return type.columns * type.strideBytes;
    case 'array':
      return (type.count ?? 0) * type.strideBytes;
    case 'struct':
      return type.sizeBytes;
    case 'pointer':
    case 'subgroup_matrix':
    case 'void':
      return 0;
  }
}

/** Stride of an array of these elements: their size, rounded up to their alignment. */
function strideOfElements(type: ValueType): number {
  if (type.kind === 'vector') return (type.width === 3 ? 4 : type.width) * elementBytes(type.element);
  return valueBytes(type);
}

export const arrayOf = (element: ValueType, count: number): ValueType => ({
  kind: 'array',
  element,
  count,
  strideBytes: strideOfElements(element),
});

/** Reads the types that token ranges denote. Lengths of arrays that depend on overrides use their values. */
export function createValueTypeReader(
  reflection: Reflection,
  overrides: Readonly<Record<string, number>>,
): { read(range: Range): ValueType; convert(type: Type): ValueType } {
  const { tokens } = reflection;
  const countOf: CountOf = (count) => reflection.evaluate(count, overrides);
  const structs = new Map<string, StructType>();

  function convert(type: Type): ValueType {
    switch (type.kind) {
      case 'scalar':
        return scalar(type.name);
      case 'vector':
        return vector(type.width, type.element);
      case 'matrix':
        return { ...type, strideBytes: alignOf(type) };
      case 'atomic':
        return { kind: 'atomic', element: type.element };
      case 'array': {
        const count = type.count && countOf(type.count);
        if (type.count && count === undefined) throw new EmulationError('an array length that is not known');
        return {
          kind: 'array',
          element: convert(type.element),
          count,
          strideBytes: strideOf(type.element, countOf) ?? 0,
        };
      }
      case 'struct': {
        const { struct } = type;
        const known = structs.get(struct.name);
        if (known) return known;
        const layout = structLayout(struct, countOf) ?? [];
        const result: StructType = {
          kind: 'struct',
          name: struct.name,
          members: struct.members.map((member, i) => ({
            name: member.name,
            type: convert(member.type),
            offset: layout[i]?.offset ?? 0,
          })),
          sizeBytes: sizeOf(type, countOf) ?? 0,
        };
        structs.set(struct.name, result);
        return result;
      }
      case 'other':
        throw new EmulationError(`the type ${type.text}`);
    }
  }

  function read(range: Range): ValueType {
    const name = tokens[range.from]?.text ?? '';
    const open = tokens[range.from + 1];
    const args = () =>
      open?.text === '<' ? splitRange(tokens, { from: range.from + 2, to: open.matchIndex }) : [];
    if (name === 'ptr') {
      const [space, to] = args();
      if (!space || !to) throw new EmulationError('a pointer type without a template');
      return { kind: 'pointer', space: tokens[space.from]?.text ?? '', to: read(to) };
    }
    if (name === 'array') {
      // Arrays of matrices have no layout in memory.
      const [element, count] = args();
      const type =
        element && /^(?:array|subgroup_matrix_.*)$/.test(tokens[element.from]?.text ?? '')
          ? read(element)
          : undefined;
      if (type && count)
        return { kind: 'array', element: type, count: countOf(count), strideBytes: strideOfElements(type) };
    }
    const matrix = /^subgroup_matrix_(left|right|result)$/.exec(name);
    if (matrix) {
      const [element, columns, rows] = args();
      const type = element && read(element);
      if (type?.kind !== 'scalar' || !columns || !rows) throw new EmulationError(`the type ${name}`);
      return {
        kind: 'subgroup_matrix',
        role: matrix[1] as SubgroupMatrixType['role'],
        element: type.element,
        columns: countOf(columns) ?? 0,
        rows: countOf(rows) ?? 0,
      };
    }
    return convert(reflection.typeAt(range));
  }
  return { read, convert };
}
