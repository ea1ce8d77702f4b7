/** Compiles the entry point of a WGSL module, and what it uses, to JavaScript. */
import { readDeclarations } from '../wgsl/declarations.ts';
import {
  bodyOf,
  overrideValues,
  type FunctionInfo,
  type Reflection,
  type Variable,
  workgroupSize,
} from '../wgsl/reflect.ts';
import { locationOf, type Range } from '../wgsl/tokens.ts';
import { compileFunction } from './compile-functions.ts';
import { EmulationError } from './emulation-error.ts';
import { type CompiledFunction, ExpressionCompiler, type ModuleScope } from './expressions.ts';
import type { EmulatedMemory, KernelRuntime } from './runtime.ts';
import { isSyncFunction, type SyncRequest } from './sync-functions.ts';
import type { Tracer } from './tracer.ts';
import { createValueTypeReader, valueBytes, type ValueType, voidType } from './value-types.ts';
import { constantOf, convertTo, Helpers, ownedCode, type Value, valueOf, zeroCode } from './values.ts';

/** What an invocation knows of itself: WGSL's built-in values, and its private variables under other names. */
export interface Invocation {
  readonly local_invocation_id: readonly number[];
  readonly local_invocation_index: number;
  global_invocation_id: readonly number[];
  workgroup_id: readonly number[];
  readonly num_workgroups: readonly number[];
  readonly subgroup_invocation_id: number;
  readonly subgroup_size: number;
  readonly subgroup_id: number;
  readonly num_subgroups: number;
  [privateVariable: string]: unknown;
}

/** Runs one invocation. A generator, if invocations meet in the kernel. */
export type RunInvocation = (invocation: Invocation) => Generator<SyncRequest, void, unknown> | undefined;

export interface CompiledModule {
  readonly workgroupSize: readonly [x: number, y: number, z: number];
  readonly resources: readonly {
    readonly name: string;
    readonly binding: number;
    readonly isWritable: boolean;
  }[];
  /** Variables of a workgroup with their sizes. */
  readonly workgroupVariables: readonly { readonly name: string; readonly sizeBytes: number }[];
  readonly isGenerator: boolean;
  /** JavaScript, for diagnosis. */
  readonly source: string;
  link(parts: {
    readonly memories: ReadonlyMap<string, EmulatedMemory>;
    readonly runtime: KernelRuntime;
    readonly tracer: Tracer;
    readonly roundHalf: (value: number) => number;
  }): { readonly run: RunInvocation; readonly resetPrivates: (invocation: Invocation) => void };
}

export interface CompileOptions {
  readonly entryPoint?: string;
  readonly overrides?: Readonly<Record<string, number>>;
  /** Whether the tracer sees each access to memory, at a cost of several times the run time. */
  readonly isTraced?: boolean;
  /** Called with each value that can be a condition and is no constant, and its type: a bool or a vector of them. */
  readonly onCondition?: (range: Range, type: ValueType) => void;
  /** Called with each number, or vector of them, that is computed or read from a variable and is no constant, and its type. */
  readonly onValue?: (range: Range, type: ValueType) => void;
}

export function compileModule(reflection: Reflection, options: CompileOptions = {}): CompiledModule {
  return new ModuleCompiler(reflection, options).compile();
}

class ModuleCompiler implements ModuleScope {
  readonly reflection: Reflection;
  readonly helpers: Helpers;
  readonly #options: CompileOptions;
  readonly #overrides: Readonly<Record<string, number>>;
  readonly #types: ReturnType<typeof createValueTypeReader>;
  readonly #raw: ReturnType<typeof readDeclarations>;
  readonly #functions = new Map<string, CompiledFunction>();
  readonly #meetings = new Map<string, boolean>();
  readonly #globals = new Map<string, Value>();
  readonly #constants: string[] = [];
  readonly #bodies: string[] = [];

  constructor(reflection: Reflection, options: CompileOptions) {
    this.reflection = reflection;
    this.#options = options;
    this.helpers = new Helpers(options.isTraced ?? false);
    this.#overrides = overrideValues(reflection, options.overrides);
    this.#types = createValueTypeReader(reflection, this.#overrides);
    this.#raw = readDeclarations(reflection.tokens);
  }

  compile(): CompiledModule {
    const { reflection, helpers } = this;
    const entry = reflection.entryPoints.find(
      ({ name, stage }) => stage === 'compute' && (this.#options.entryPoint ?? name) === name,
    );
    const info = entry && reflection.functions.find(({ name }) => name === entry.name);
    if (!entry || !info) throw new EmulationError('a module without this entry point');
    const size = workgroupSize(reflection, entry, this.#overrides);
    const [x, y, z] = size;
    if (x === undefined || y === undefined || z === undefined)
      throw new EmulationError('a workgroup size that is not known');
    const main = this.functionNamed(entry.name);
    if (!main) throw new EmulationError(`the function ${entry.name}`);
    const args = this.#entryArguments(info);
    const used = [...this.#globals.keys()];
    const variables = reflection.variables.filter(({ name }) => used.includes(name));
    const inMemory = variables.filter(({ space }) => space !== 'private');
    const resets = variables
      .filter(({ space }) => space === 'private')
      .map((variable) => `L.${privateName(variable.name)} = ${this.#initialValue(variable)};`);
    const source = [
      "'use strict';",
      ...inMemory.map(({ name }) => `const ${memoryName(name)} = memories.get(${JSON.stringify(name)});`),
      helpers.source,
      ...this.#constants,
      ...this.#bodies,
      `const reset = (L) => { ${resets.join(' ')} };`,
      `return { run: (L) => ${main.code}(${['L', ...args].join(', ')}), resetPrivates: reset };`,
    ].join('\n');
    return {
      workgroupSize: [x, y, z],
      resources: inMemory
        .filter(({ isResource }) => isResource)
        .map(({ name, binding, access }) => ({
          name,
          binding: binding ?? -1,
          isWritable: access !== 'read',
        })),
      workgroupVariables: inMemory
        .filter(({ space }) => space === 'workgroup')
        .map(({ name, type }) => ({ name, sizeBytes: valueBytes(this.#types.convert(type)) })),
      isGenerator: main.isGenerator,
      source,
      link: ({ memories, runtime, tracer, roundHalf }) =>
        // oxlint-disable-next-line typescript/no-implied-eval -- the compiler above writes it; of the kernel's text it has identifiers and numbers only
        new Function('memories', 'R', 'T', 'fr', 'hr', source)(
          memories,
          runtime,
          tracer,
          Math.fround,
          roundHalf,
        ),
    };
  }

  readType(range: Range): ValueType {
    return this.#types.read(range);
  }

  isType(name: string): boolean {
    return (
      /^(?:f32|f16|u32|i32|bool|vec[234][fhui]?|mat[234]x[234][fh]?|array|subgroup_matrix_(?:left|right|result))$/.test(
        name,
      ) ||
      this.reflection.structs.has(name) ||
      this.reflection.aliases.has(name)
    );
  }

  unsupported(construct: string, range: Range): EmulationError {
    return new EmulationError(construct, locationOf(this.reflection.tokens, range));
  }

  noteCondition(range: Range, { type, constant }: Value): void {
    if (constant === undefined) this.#options.onCondition?.(range, type);
  }

  noteValue(range: Range, { type, constant }: Value): void {
    const isNumber = (type.kind === 'scalar' || type.kind === 'vector') && type.element !== 'bool';
    if (isNumber && constant === undefined) this.#options.onValue?.(range, type);
  }

  functionNamed(name: string): CompiledFunction | undefined {
    const known = this.#functions.get(name);
    if (known) return known;
    const info = this.reflection.functions.find((one) => one.name === name);
    if (!info) return undefined;
    const parameters = info.raw.parameters.map(({ type }) => this.readType(type));
    const compiled: CompiledFunction = {
      code: `f_${name}`,
      parameters,
      result: this.#resultType(info),
      isGenerator: this.#meets(info),
      // Parameters are immutable; a copy is needed only if something else may change the argument during the call.
      copiesArguments:
        parameters.some(({ kind }) => kind === 'pointer') ||
        this.reflection.variables.some(({ space }) => space === 'private'),
    };
    this.#functions.set(name, compiled);
    const source = compileFunction(this, (global) => this.#global(global), info, compiled);
    this.#bodies.push(`const ${compiled.code} = ${source};`);
    return compiled;
  }

  #resultType({ raw }: FunctionInfo): ValueType {
    const { tokens } = this.reflection;
    const open = raw.name + 1;
    const close = tokens[open]?.matchIndex ?? open;
    if (tokens[close + 1]?.text !== '->') return voidType;
    let from = close + 2;
    while (tokens[from]?.text === '@')
      from = tokens[from + 2]?.text === '(' ? (tokens[from + 2]?.matchIndex ?? from) + 1 : from + 2;
    return this.readType({ from, to: raw.body });
  }

  /** Whether invocations meet in a function, or in one that it calls. */
  #meets(info: FunctionInfo): boolean {
    const known = this.#meetings.get(info.name);
    if (known !== undefined) return known;
    this.#meetings.set(info.name, false);
    const { tokens, functions } = this.reflection;
    const { from, to } = bodyOf(tokens, info);
    const called = new Set(
      tokens.slice(from, to).flatMap(({ kind, text }) => (kind === 'name' ? [text] : [])),
    );
    const meets =
      [...called].some(isSyncFunction) ||
      functions.some((other) => called.has(other.name) && this.#meets(other));
    this.#meetings.set(info.name, meets);
    return meets;
  }

  #global(name: string): Value | undefined {
    const known = this.#globals.get(name);
    if (known) return known;
    const value = this.#readGlobal(name);
    if (value) this.#globals.set(name, value);
    return value;
  }

  #readGlobal(name: string): Value | undefined {
    const variable = this.reflection.variables.find((one) => one.name === name);
    if (variable) {
      const type = this.#types.convert(variable.type);
      if (variable.space === 'private') {
        const key = privateName(name);
        return this.#expressions().stored(type, {
          kind: 'local',
          code: `L.${key}`,
          container: ['L', `'${key}'`],
        });
      }
      const { space } = variable;
      if (!['storage', 'uniform', 'workgroup'].includes(space))
        throw new EmulationError(`a variable of ${space}`);
      return this.#expressions().stored(type, {
        kind: 'memory',
        memory: memoryName(name),
        address: '0',
        space,
        site: 0,
      });
    }
    const override = this.#raw.overrides.get(name);
    if (override) {
      const info = this.reflection.overrides.find((one) => one.name === name);
      const value = this.#overrides[name];
      if (value === undefined || !info?.type)
        throw new EmulationError(`the override ${name} without a value`);
      return constantOf({ kind: 'scalar', element: info.type }, info.type === 'bool' ? value !== 0 : value);
    }
    const declared = this.#raw.constants.get(name);
    if (!declared?.value) return undefined;
    const raw = this.#expressions().compile(declared.value);
    const value = declared.type ? convertTo(this.helpers, raw, this.readType(declared.type)) : raw;
    if (value.constant !== undefined) return value;
    const code = `c_${name}`;
    this.#constants.push(`const ${code} = ${ownedCode(value)};`);
    return { ...valueOf(value.type, code), isShared: true };
  }

  #expressions(): ExpressionCompiler {
    return new ExpressionCompiler(this, (name) => this.#global(name));
  }

  #initialValue({ name, type }: Variable): string {
    const declared = this.#raw.variables.find((one) => this.reflection.tokens[one.name]?.text === name);
    if (!declared?.value) return zeroCode(this.#types.convert(type));
    return ownedCode(this.#expressions().compileAs(declared.value, this.#types.convert(type)));
  }

  #entryArguments(info: FunctionInfo): string[] {
    const { tokens } = this.reflection;
    const builtin = (
      attributes: readonly { readonly name: string; readonly args: readonly Range[] }[],
    ): string | undefined => {
      const token = attributes.find(({ name }) => name === 'builtin')?.args[0]?.from;
      return token === undefined ? undefined : `L.${tokens[token]?.text}`;
    };
    return info.raw.parameters.map((parameter, i) => {
      const direct = builtin(parameter.attributes);
      if (direct !== undefined) return direct;
      const type = info.parameters[i]?.type;
      const members = type?.kind === 'struct' ? this.#raw.structs.get(type.struct.name)?.members : undefined;
      if (!members) throw new EmulationError('a parameter of the entry point that is no built-in value');
      return `[${members.map(({ attributes }) => builtin(attributes)).join(', ')}]`;
    });
  }
}

const memoryName = (variable: string): string => `m_${variable}`;
const privateName = (variable: string): string => `p_${variable}`;
