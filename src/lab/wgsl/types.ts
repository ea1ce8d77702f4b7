/** WGSL types with their memory layout. */
import type { Range } from './tokens.ts';

export type ScalarName = 'f32' | 'f16' | 'u32' | 'i32' | 'bool';

export type Type =
  | { readonly kind: 'scalar'; readonly name: ScalarName }
  | { readonly kind: 'vector'; readonly width: number; readonly element: ScalarName }
  | { readonly kind: 'matrix'; readonly columns: number; readonly rows: number; readonly element: ScalarName }
  | { readonly kind: 'atomic'; readonly element: ScalarName }
  /** Without `count`: a runtime-sized array. */
  | { readonly kind: 'array'; readonly element: Type; readonly count?: Range }
  | { readonly kind: 'struct'; readonly struct: Struct }
  /** Textures, samplers, pointers, subgroup matrices. */
  | { readonly kind: 'other'; readonly text: string };

export interface Struct {
  readonly name: string;
  readonly members: readonly Member[];
}

export interface Member {
  readonly name: string;
  /** Token index of the name. */
  readonly token: number;
  readonly type: Type;
  /** Values of `@align` and `@size`. */
  readonly align?: number;
  readonly size?: number;
}

/** Evaluates the length expression of an array. */
export type CountOf = (count: Range) => number | undefined;

const scalarBytes: Readonly<Record<ScalarName, number>> = { f32: 4, f16: 2, u32: 4, i32: 4, bool: 4 };

const roundUp = (value: number, to: number): number => Math.ceil(value / to) * to;

/** Memoizes a computation for each struct: nested structs would otherwise take exponential time. */
function memoize<T>(
  compute: (struct: Struct, countOf: CountOf) => T,
): (struct: Struct, countOf: CountOf) => T {
  const cache = new WeakMap<Struct, { value: T }>();
  return (struct, countOf) => {
    const entry = cache.get(struct) ?? { value: compute(struct, countOf) };
    cache.set(struct, entry);
    return entry.value;
  };
}

export function alignOf(type: Type): number {
  switch (type.kind) {
    case 'scalar':
      return scalarBytes[type.name];
    case 'vector':
      return (type.width === 2 ? 2 : 4) * scalarBytes[type.element];
    case 'matrix':
      return (type.rows === 2 ? 2 : 4) * scalarBytes[type.element];
    case 'atomic':
      return 4;
    case 'array':
      return alignOf(type.element);
    case 'struct':
      return alignOfStruct(type.struct, () => undefined);
    case 'other':
      return 1;
  }
}

/** Size in bytes; undefined when the length of an array is unknown. A runtime-sized array has size 0. */
export function sizeOf(type: Type, countOf: CountOf): number | undefined {
  switch (type.kind) {
    case 'scalar':
      return scalarBytes[type.name];
    case 'vector':
      return type.width * scalarBytes[type.element];
    case 'matrix':
      return type.columns * alignOf(type);
    case 'atomic':
      return 4;
    case 'array': {
      if (!type.count) return 0;
      const count = countOf(type.count);
      const stride = strideOf(type.element, countOf);
      return count === undefined || stride === undefined ? undefined : count * stride;
    }
    case 'struct': {
      const members = structLayout(type.struct, countOf);
      const last = members?.at(-1);
      return last && roundUp(last.offset + last.size, alignOf(type));
    }
    case 'other':
      return undefined;
  }
}

/** Array stride in bytes. */
export function strideOf(element: Type, countOf: CountOf): number | undefined {
  const size = sizeOf(element, countOf);
  return size === undefined ? undefined : roundUp(size, alignOf(element));
}

const alignOfStruct = memoize((struct) =>
  Math.max(1, ...struct.members.map((member) => member.align ?? alignOf(member.type))),
);

/** Offset and size of each member, in bytes. Lengths of arrays in structs cannot depend on overrides. */
export const structLayout = memoize(
  (struct, countOf): readonly { offset: number; size: number }[] | undefined => {
    const members: { offset: number; size: number }[] = [];
    let end = 0;
    for (const member of struct.members) {
      const size = member.size ?? sizeOf(member.type, countOf);
      if (size === undefined) return undefined;
      const offset = roundUp(end, member.align ?? alignOf(member.type));
      members.push({ offset, size });
      end = offset + size;
    }
    return members;
  },
);

const packedStructBytes = memoize((struct, countOf): number | undefined => {
  let sum = 0;
  for (const member of struct.members) sum += packedSizeBytes(member.type, countOf) ?? Number.NaN;
  return Number.isNaN(sum) ? undefined : sum;
});

/** Size in bytes without padding. */
export function packedSizeBytes(type: Type, countOf: CountOf): number | undefined {
  switch (type.kind) {
    case 'matrix':
      return type.columns * type.rows * scalarBytes[type.element];
    case 'array': {
      const count = type.count && countOf(type.count);
      const element = packedSizeBytes(type.element, countOf);
      return count === undefined || element === undefined ? undefined : count * element;
    }
    case 'struct':
      return packedStructBytes(type.struct, countOf);
    case 'scalar':
    case 'vector':
    case 'atomic':
    case 'other':
      return sizeOf(type, countOf);
  }
}

const structComponents = memoize(
  (struct) => new Set(struct.members.flatMap((member) => [...typeComponents(member.type)])),
);

/** Components of a type: scalar names, `array`, `atomic`, or the text of other types. */
export function typeComponents(type: Type): ReadonlySet<string> {
  switch (type.kind) {
    case 'scalar':
      return new Set([type.name]);
    case 'vector':
    case 'matrix':
      return new Set([type.element]);
    case 'atomic':
      return new Set(['atomic', type.element]);
    case 'array':
      return new Set(['array', ...typeComponents(type.element)]);
    case 'struct':
      return structComponents(type.struct, () => undefined);
    case 'other':
      return new Set([type.text]);
  }
}

/** WGSL text of a type. */
export function typeText(type: Type, countText: (count: Range) => string): string {
  switch (type.kind) {
    case 'scalar':
      return type.name;
    case 'vector':
      return `vec${type.width}<${type.element}>`;
    case 'matrix':
      return `mat${type.columns}x${type.rows}<${type.element}>`;
    case 'atomic':
      return `atomic<${type.element}>`;
    case 'array':
      return `array<${typeText(type.element, countText)}${type.count ? `, ${countText(type.count)}` : ''}>`;
    case 'struct':
      return type.struct.name;
    case 'other':
      return type.text;
  }
}
