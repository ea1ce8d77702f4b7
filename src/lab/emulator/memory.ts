/** Source that loads and stores values in emulated memory. */
import { EmulationError } from './emulation-error.ts';
import { type ElementName, elementBytes, valueBytes, type ValueType } from './value-types.ts';
import type { Helpers, MemoryReference } from './values.ts';

const names = new WeakMap<ValueType, string>();
let nextName = 0;

/** A name that is part of a helper's; equal for scalars and vectors of the same type. */
function typeName(type: ValueType): string {
  if (type.kind === 'scalar') return type.element;
  if (type.kind === 'vector') return `v${type.width}_${type.element}`;
  const name = names.get(type) ?? `${type.kind}${nextName++}`;
  names.set(type, name);
  return name;
}

const scalarLoad = (element: ElementName, memory: string, address: string): string =>
  element === 'f16' ? `${memory}.getF16(${address})` : `${memory}.${element}[(${address}) >>> 2]`;

const scalarStore = (element: ElementName, memory: string, address: string, value: string): string =>
  element === 'f16'
    ? `${memory}.setF16(${address}, ${value})`
    : `${memory}.${element === 'bool' ? 'u32' : element}[(${address}) >>> 2] = ${value}`;

/** Parts of a composite type, with their offsets in bytes. */
function partsOf(type: ValueType): { type: ValueType; offset: number }[] {
  switch (type.kind) {
    case 'vector': {
      const part: ValueType = { kind: 'scalar', element: type.element };
      const bytes = elementBytes(type.element);
      return Array.from({ length: type.width }, (_, i) => ({ type: part, offset: i * bytes }));
    }
    case 'matrix': {
      const part: ValueType = { kind: 'vector', width: type.rows, element: type.element };
      return Array.from({ length: type.columns }, (_, i) => ({ type: part, offset: i * type.strideBytes }));
    }
    case 'struct':
      return [...type.members];
    default:
      throw new EmulationError(`loading or storing a ${type.kind}`);
  }
}

function load(helpers: Helpers, type: ValueType, memory: string, address: string): string {
  if (type.kind === 'scalar' || type.kind === 'atomic') {
    const code = scalarLoad(type.element === 'bool' ? 'u32' : type.element, memory, address);
    return type.element === 'bool' ? `(${code} !== 0)` : code;
  }
  const helper = helpers.define(`load_${typeName(type)}`, () => {
    if (type.kind === 'array')
      return `(m, a) => R.repeat(${type.count}, (i) => ${load(helpers, type.element, 'm', `a + i * ${type.strideBytes}`)})`;
    const parts = partsOf(type).map((part) => load(helpers, part.type, 'm', `a + ${part.offset}`));
    return `(m, a) => [${parts.join(', ')}]`;
  });
  return `${helper}(${memory}, ${address})`;
}

function store(helpers: Helpers, type: ValueType, memory: string, address: string, value: string): string {
  if (type.kind === 'scalar' || type.kind === 'atomic')
    return scalarStore(type.element, memory, address, type.element === 'bool' ? `${value} ? 1 : 0` : value);
  const helper = helpers.define(`store_${typeName(type)}`, () => {
    if (type.kind === 'array')
      return `(m, a, v) => { for (let i = 0; i < ${type.count}; i++) ${store(helpers, type.element, 'm', `a + i * ${type.strideBytes}`, 'v[i]')}; }`;
    const parts = partsOf(type).map((part, i) =>
      store(helpers, part.type, 'm', `a + ${part.offset}`, `v[${i}]`),
    );
    return `(m, a, v) => { ${parts.join('; ')}; }`;
  });
  return `${helper}(${memory}, ${address}, ${value})`;
}

/** Whether a tracer sees accesses of this address space. */
const isTraced = (helpers: Helpers, { space }: MemoryReference): boolean =>
  helpers.isTraced && space !== 'uniform';

/** Source of an expression that loads a value. */
export function loadCode(helpers: Helpers, type: ValueType, from: MemoryReference): string {
  if (!isTraced(helpers, from)) return load(helpers, type, from.memory, from.address);
  const helper = helpers.define(
    `traced_load_${typeName(type)}`,
    () =>
      `(m, a, s, L) => { T.access(m, a, ${valueBytes(type)}, s, L, false); return ${load(helpers, type, 'm', 'a')}; }`,
  );
  return `${helper}(${from.memory}, ${from.address}, ${from.site}, L)`;
}

/** Source of an expression that stores a value. */
export function storeCode(helpers: Helpers, type: ValueType, to: MemoryReference, value: string): string {
  if (!isTraced(helpers, to)) return store(helpers, type, to.memory, to.address, value);
  const helper = helpers.define(
    `traced_store_${typeName(type)}`,
    () =>
      `(m, a, v, s, L) => { T.access(m, a, ${valueBytes(type)}, s, L, true); ${store(helpers, type, 'm', 'a', 'v')}; }`,
  );
  return `${helper}(${to.memory}, ${to.address}, ${value}, ${to.site}, L)`;
}
