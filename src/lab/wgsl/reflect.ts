/** Reflects a WGSL module: its declarations with their source locations. */
import { evaluateExpression, sourceTextOf, type ConstantValue } from './constants.ts';
import { readDeclarations, type Attribute, type Declarations, type RawFunction } from './declarations.ts';
import {
  findToken,
  locationOf,
  splitRange,
  tokenize,
  type SourceLocation,
  type Range,
  type Token,
} from './tokens.ts';
import { sizeOf, typeText, type Member, type ScalarName, type Struct, type Type } from './types.ts';

export interface NamedLocation extends SourceLocation {
  readonly name: string;
}

export interface Override extends NamedLocation {
  readonly type: ScalarName | undefined;
  readonly hasDefault: boolean;
  /** Value of `@id`. */
  readonly id?: number;
}

export interface Variable extends NamedLocation {
  /** Address space; `handle` for textures, samplers and similar. */
  readonly space: string;
  readonly access: 'read' | 'write' | 'read_write';
  readonly type: Type;
  readonly typeText: string;
  /** Location of the type. */
  readonly typeLocation: SourceLocation;
  /** Set only for resources, like `binding`. */
  readonly group?: number | undefined;
  readonly binding?: number | undefined;
  readonly isResource: boolean;
}

export interface FunctionInfo extends NamedLocation {
  readonly raw: RawFunction;
  readonly parameters: readonly { readonly name: string; readonly type: Type }[];
}

export interface EntryPoint extends NamedLocation {
  readonly stage: 'compute' | 'vertex' | 'fragment';
  /** Expressions for x, y, z, as written. Use `workgroupSize()` for the values. */
  readonly workgroupSize: readonly Range[];
  readonly workgroupLocation?: SourceLocation;
  /** Names of the builtin input values. */
  readonly builtins: readonly string[];
}

export type OverrideValues = Readonly<Record<string, number>>;

export interface Reflection {
  readonly source: string;
  readonly tokens: readonly Token[];
  readonly enables: readonly NamedLocation[];
  readonly requires: readonly NamedLocation[];
  readonly structs: ReadonlyMap<string, Struct>;
  readonly aliases: ReadonlyMap<string, Type>;
  readonly overrides: readonly Override[];
  readonly variables: readonly Variable[];
  readonly functions: readonly FunctionInfo[];
  readonly entryPoints: readonly EntryPoint[];
  /** Evaluates a constant or override expression. Overrides without a given value have their default. */
  evaluate(range: Range, values?: OverrideValues): number | undefined;
  /** Type that a token range denotes, for example `array<vec4<f32>, N>`. */
  typeAt(range: Range): Type;
}

const scalars: ReadonlySet<string> = new Set(['f32', 'f16', 'u32', 'i32', 'bool']);
const typeBySuffix: Readonly<Record<string, ScalarName>> = { f: 'f32', h: 'f16', u: 'u32', i: 'i32' };
const concreteTypes: Readonly<Record<string, ScalarName>> = { int: 'i32', float: 'f32' };

/** Expects source that Tint accepts. For other source, the result is incomplete. */
export function reflect(source: string): Reflection {
  const tokens = tokenize(source);
  const raw = readDeclarations(tokens);
  const valueOf = createEvaluator(tokens, raw);
  const number = (range: Range | undefined): number | undefined => range && valueOf(range, {})?.value;
  const { typeAt, struct, structs, aliases } = createTypeReader(source, tokens, raw, number);
  for (const name of raw.structs.keys()) struct(name);
  for (const [name, range] of raw.aliases) aliases.set(name, typeAt(range));

  const namedLocation = (index: number): NamedLocation => ({
    name: tokens[index]?.text ?? '',
    ...locationOf(tokens, { from: index, to: index + 1 }),
  });
  const argument = (attributes: readonly Attribute[], name: string): number | undefined =>
    number(attributes.find((attribute) => attribute.name === name)?.args[0]);
  const variables = raw.variables.map((variable): Variable => {
    const type = variable.type ? typeAt(variable.type) : initialType(variable.value, typeAt);
    const isResource = variable.attributes.some(({ name }) => name === 'group' || name === 'binding');
    const space = variable.template[0] ?? 'handle';
    return {
      ...namedLocation(variable.name),
      space,
      access: accessOf(space, variable.template[1]),
      type,
      typeText: typeText(type, (count) => sourceTextOf(source, tokens, count)),
      typeLocation: locationOf(tokens, variable.type ?? { from: variable.name, to: variable.name + 1 }),
      isResource,
      ...(isResource && {
        group: argument(variable.attributes, 'group'),
        binding: argument(variable.attributes, 'binding'),
      }),
    };
  });
  const functions = raw.functions.map(
    (fn): FunctionInfo => ({
      ...namedLocation(fn.name),
      raw: fn,
      parameters: fn.parameters.map(({ name, type }) => ({
        name: tokens[name]?.text ?? '',
        type: typeAt(type),
      })),
    }),
  );
  return {
    source,
    tokens,
    enables: raw.enables.map(namedLocation),
    requires: raw.requires.map(namedLocation),
    structs,
    aliases,
    variables,
    functions,
    overrides: [...raw.overrides.values()].map((override): Override => {
      const id = argument(override.attributes, 'id');
      return {
        ...namedLocation(override.name),
        type: overrideType(override, valueOf, typeAt),
        hasDefault: override.value !== undefined,
        ...(id !== undefined && { id }),
      };
    }),
    entryPoints: functions.flatMap((fn) => entryPointOf(fn, tokens, memberAttributesOf(raw, structs))),
    evaluate: (range, values = {}) => valueOf(range, values)?.value,
    typeAt,
  };
}

/** Workgroup size under these overrides. An omitted dimension is 1, an unknown one undefined. */
export function workgroupSize(
  reflection: Reflection,
  entry: EntryPoint,
  values: OverrideValues = {},
): readonly [x: number | undefined, y: number | undefined, z: number | undefined] {
  const [x, y, z] = entry.workgroupSize;
  const of = (range: Range | undefined) => (range ? reflection.evaluate(range, values) : 1);
  return [of(x), of(y), of(z)];
}

/** Size of a variable in bytes; undefined when it depends on an override without a value. */
export const variableSizeBytes = (
  reflection: Reflection,
  variable: Variable,
  values: OverrideValues = {},
): number | undefined => sizeOf(variable.type, (count) => reflection.evaluate(count, values));

/** Values of all overrides: the given value, else the default. Overrides with neither are omitted. */
export function overrideValues(
  reflection: Reflection,
  given: OverrideValues = {},
): Readonly<Record<string, number>> {
  const values: Record<string, number> = {};
  const { tokens } = reflection;
  for (const { name } of reflection.overrides) {
    const index = tokens.findIndex((token) => token.text === name);
    const value = reflection.evaluate({ from: index, to: index + 1 }, given);
    if (value !== undefined) values[name] = value;
  }
  return values;
}

const accessOf = (space: string, written: string | undefined): Variable['access'] => {
  if (written === 'read' || written === 'write' || written === 'read_write') return written;
  return space === 'storage' || space === 'uniform' || space === 'handle' ? 'read' : 'read_write';
};

/** Type of a variable without a declared type: from an initializer of the form `T(...)`. */
function initialType(value: Range | undefined, typeAt: (range: Range) => Type): Type {
  return value ? typeAt(value) : { kind: 'other', text: 'unknown' };
}

const memberAttributesOf =
  (raw: Declarations, structs: ReadonlyMap<string, Struct>) =>
  (type: Type): readonly Attribute[] =>
    type.kind === 'struct' && structs.has(type.struct.name)
      ? (raw.structs.get(type.struct.name)?.members ?? []).flatMap((member) => member.attributes)
      : [];

function entryPointOf(
  fn: FunctionInfo,
  tokens: readonly Token[],
  memberAttributes: (type: Type) => readonly Attribute[],
): EntryPoint[] {
  const { attributes } = fn.raw;
  const stage = (['compute', 'vertex', 'fragment'] as const).find((name) =>
    attributes.some((attribute) => attribute.name === name),
  );
  if (!stage) return [];
  const size = attributes.find(({ name }) => name === 'workgroup_size');
  const builtins = fn.raw.parameters.flatMap((parameter, index) => {
    const type = fn.parameters[index]?.type;
    return [...parameter.attributes, ...(type ? memberAttributes(type) : [])]
      .filter(({ name }) => name === 'builtin')
      .map(({ args }) => tokens[args[0]?.from ?? -1]?.text ?? '');
  });
  const { name, line, column, length } = fn;
  return [
    {
      name,
      line,
      column,
      length,
      stage,
      builtins,
      workgroupSize: size?.args ?? [],
      ...(size && { workgroupLocation: locationOf(tokens, size.range) }),
    },
  ];
}

type ValueOf = (range: Range, values: OverrideValues) => ConstantValue | undefined;

function createEvaluator(tokens: readonly Token[], raw: Declarations): ValueOf {
  return (range, values) => {
    const cache = new Map<string, ConstantValue | undefined>();
    const lookup = (name: string): ConstantValue | undefined => {
      if (cache.has(name)) return cache.get(name);
      cache.set(name, undefined); // guards against cycles during the lookup
      const value = resolve(name);
      cache.set(name, value);
      return value;
    };
    const resolve = (name: string): ConstantValue | undefined => {
      const override = raw.overrides.get(name);
      const declared = override ?? raw.constants.get(name);
      if (!declared) return undefined;
      const fallback = declared.value && evaluateExpression(tokens, declared.value, lookup);
      const declaredType = declared.type && tokens[declared.type.from]?.text;
      const type = (scalars.has(declaredType ?? '') ? declaredType : fallback?.type) as
        | ConstantValue['type']
        | undefined;
      if (!type) return undefined;
      const overridden = override && Object.hasOwn(values, name) ? values[name] : undefined;
      const resultType = (override && concreteTypes[type]) ?? type;
      return { type: resultType, value: overridden ?? fallback?.value };
    };
    return evaluateExpression(tokens, range, lookup);
  };
}

function overrideType(
  override: { readonly type?: Range; readonly value?: Range },
  valueOf: ValueOf,
  typeAt: (range: Range) => Type,
): ScalarName | undefined {
  if (override.type) {
    const type = typeAt(override.type);
    return type.kind === 'scalar' ? type.name : undefined;
  }
  const type = override.value && valueOf(override.value, {})?.type;
  return type && (concreteTypes[type] ?? (type as ScalarName));
}

function createTypeReader(
  source: string,
  tokens: readonly Token[],
  raw: Declarations,
  number: (range: Range | undefined) => number | undefined,
) {
  const structs = new Map<string, Struct>();
  const aliases = new Map<string, Type>();
  const inProgress = new Set<string>();

  function struct(name: string): Struct | undefined {
    const known = structs.get(name);
    const declared = raw.structs.get(name);
    if (known || !declared || inProgress.has(name)) return known;
    inProgress.add(name);
    const members = declared.members.map((member): Member => {
      const attribute = (wanted: string) =>
        number(member.attributes.find((one) => one.name === wanted)?.args[0]);
      const [align, size] = [attribute('align'), attribute('size')];
      return {
        name: tokens[member.name]?.text ?? '',
        token: member.name,
        type: typeAt(member.type),
        ...(align !== undefined && { align }),
        ...(size !== undefined && { size }),
      };
    });
    inProgress.delete(name);
    const result: Struct = { name, members };
    structs.set(name, result);
    return result;
  }

  function typeAt(range: Range): Type {
    const name = tokens[range.from]?.text ?? '';
    const open = tokens[range.from + 1];
    const isTemplate = open?.text === '<' && open.matchIndex > 0 && range.from + 1 < range.to;
    const args = isTemplate ? splitRange(tokens, { from: range.from + 2, to: open.matchIndex }) : [];
    const other: Type = {
      kind: 'other',
      text: sourceTextOf(source, tokens, {
        from: range.from,
        to: isTemplate ? Math.min(range.to, open.matchIndex + 1) : range.from + 1,
      }),
    };
    const alias = raw.aliases.get(name);
    if (alias) {
      if (inProgress.has(name)) return other;
      inProgress.add(name);
      const type = typeAt(alias);
      inProgress.delete(name);
      return type;
    }
    const declared = struct(name);
    if (declared) return { kind: 'struct', struct: declared };
    if (scalars.has(name)) return { kind: 'scalar', name: name as ScalarName };
    const scalarArgument = (): ScalarName | undefined => {
      const type = args[0] && typeAt(args[0]);
      return type?.kind === 'scalar' ? type.name : undefined;
    };
    const vector = /^vec([234])([fhui]?)$/.exec(name);
    if (vector) {
      const element = typeBySuffix[vector[2] ?? ''] ?? scalarArgument();
      return element ? { kind: 'vector', width: Number(vector[1]), element } : other;
    }
    const matrix = /^mat([234])x([234])([fh]?)$/.exec(name);
    if (matrix) {
      const element = typeBySuffix[matrix[3] ?? ''] ?? scalarArgument();
      return element
        ? { kind: 'matrix', columns: Number(matrix[1]), rows: Number(matrix[2]), element }
        : other;
    }
    const [first, second] = args;
    if (name === 'atomic') {
      const element = scalarArgument();
      return element ? { kind: 'atomic', element } : other;
    }
    if (name === 'array' && first) {
      return { kind: 'array', element: typeAt(first), ...(second && { count: second }) };
    }
    return other;
  }
  return { typeAt, struct, structs, aliases };
}

/** Token range of the body of a function, without the braces. */
export const bodyOf = (tokens: readonly Token[], { raw }: FunctionInfo): Range => ({
  from: raw.body + 1,
  to: tokens[raw.body]?.matchIndex ?? findToken(tokens, { from: raw.body, to: tokens.length }, '}'),
});
