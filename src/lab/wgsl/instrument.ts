/**
 * Instruments a kernel to count out-of-bounds accesses to its buffers, and to record the outcomes of its conditions. Without it
 * such accesses go unnoticed: WebGPU's robust access discards such a write and returns an arbitrary value for such a read.
 */
import type { Finding } from '../types.ts';
import { createFinding } from '../stages/codes.ts';
import { followAccess, isAddressOf, type IndexStep } from './access.ts';
import { bodyOf, type Reflection, type Variable } from './reflect.ts';
import { childrenOf, readStatements, type Statement } from './statements.ts';
import { locationOf, type Range, type SourceLocation, type Token } from './tokens.ts';
import { structLayout, typeComponents, sizeOf, strideOf, type CountOf, type Type } from './types.ts';
import { findUses, type NameUse } from './uses.ts';

export interface AccessSite extends SourceLocation {
  /** Name of the variable. */
  readonly binding: string;
  /** Whether it can be a write: it is assigned, or its address is taken. */
  readonly isWrite: boolean;
  /** Number of elements. If it depends on the buffer size: offset of the first element and stride, in bytes. */
  readonly elements: number | { readonly offset: number; readonly stride: number };
}

/** A condition in the source, without outer parentheses. */
export interface ConditionSite extends Range, SourceLocation {
  /** Components of the value: 1 for a bool. */
  readonly width: number;
  /** As written. */
  readonly text: string;
  /** Whether it may be true, or false, in all cases. */
  readonly isOrdinary: boolean;
  /**
   * Token of the opening brace of the body, where the site is a loop: what is recorded is whether it had a first and a second turn.
   */
  readonly body?: number;
}

/** A number in the source, without outer parentheses. */
export interface ValueSite extends Range, SourceLocation {
  /** Components: 1 for a scalar. */
  readonly width: number;
  readonly element: 'u32' | 'i32' | 'f32' | 'f16';
  /** As written. */
  readonly text: string;
}

export interface InstrumentedSource {
  readonly source: string;
  /** Each site has two words in `@group(1) @binding(0)`: the number of out-of-bounds indices, and the first of them. */
  readonly sites: readonly AccessSite[];
  /** Each has the two words after those of the accesses and the conditions before it: whether it was false, and true. */
  readonly conditions: readonly ConditionSite[];
  /** Each has the two words after those: its largest value, and the complement of its smallest. See `valueKey`. */
  readonly values: readonly ValueSite[];
  /** Accesses that this build does not check. */
  readonly uncheckedFindings: readonly Finding[];
}

/** Names that the added code uses. A module that redeclares one of them, also as a local variable, cannot be instrumented. */
const helperNames: ReadonlySet<string> = new Set(
  [
    'u32 array atomic arrayLength atomicAdd atomicStore lathe_index lathe_counts lathe_outcome',
    'lathe_condition lathe_condition2 lathe_condition3 lathe_condition4 lathe_turn lathe_turns atomicMax',
    'lathe_key lathe_store lathe_all lathe_u32 lathe_i32 lathe_f32 lathe_f16',
    ...[2, 3, 4].map(
      (width) => `lathe_u32_${width} lathe_i32_${width} lathe_f32_${width} lathe_f16_${width}`,
    ),
  ].flatMap((names) => names.split(' ')),
);
/** Names that the added functions alone use: local variables may have them. */
const moduleNames: ReadonlySet<string> = new Set(
  'bool vec2 vec3 vec4 any all atomicLoad ptr bitcast select max i32 f32 f16'.split(' '),
);

const helperSource = `
@group(1) @binding(0) var<storage, read_write> lathe_counts: array<atomic<u32>>;
fn lathe_index(site: u32, index: u32, length: u32) -> u32 {
  if (index >= length) {
    if (atomicAdd(&lathe_counts[site * 2u], 1u) == 0u) {
      atomicStore(&lathe_counts[site * 2u + 1u], index);
    }
  }
  return index;
}
fn lathe_outcome(word: u32) {
  if (atomicLoad(&lathe_counts[word]) == 0u) { atomicStore(&lathe_counts[word], 1u); }
}
fn lathe_condition(site: u32, holds: bool) -> bool {
  lathe_outcome(site * 2u + u32(holds));
  return holds;
}
fn lathe_turn(site: u32, turns: ptr<function, u32>) {
  if (*turns < 2u) { lathe_outcome(site * 2u + *turns); }
  *turns = *turns + 1u;
}
${[2, 3, 4]
  .map(
    (width) => `fn lathe_condition${width}(site: u32, holds: vec${width}<bool>) -> vec${width}<bool> {
  if (any(holds)) { lathe_outcome(site * 2u + 1u); }
  if (!all(holds)) { lathe_outcome(site * 2u); }
  return holds;
}
`,
  )
  .join('')}`;

/**
 * Functions for the types that occur: `f16` needs an extension. An invocation keeps its ranges to itself, because atomics in inner loops
 * take many times as long, and stores them at its end.
 */
function valueHelpers(values: readonly ValueSite[], firstSite: number): string {
  if (values.length === 0) return '';
  const keys = {
    u32: 'v',
    i32: 'bitcast<u32>(v) ^ 0x80000000u',
    f32: 'lathe_key(v)',
    f16: 'lathe_key(f32(v))',
  };
  const pointers = 'high: ptr<private, u32>, low: ptr<private, u32>';
  const text = [...new Set(values.map(({ element }) => element))].map(
    (element) => `fn lathe_${element}(v: ${element}, ${pointers}) -> ${element} {
  let key = ${keys[element]};
  *high = max(*high, key);
  *low = max(*low, ~key);
  return v;
}
${[2, 3, 4]
  .map(
    (
      width,
    ) => `fn lathe_${element}_${width}(v: vec${width}<${element}>, ${pointers}) -> vec${width}<${element}> {
  for (var i = 0u; i < ${width}u; i++) { _ = lathe_${element}(v[i], high, low); }
  return v;
}
`,
  )
  .join('')}`,
  );
  const variables = values.map(
    (_, n) => `var<private> lathe_high${n}: u32;\nvar<private> lathe_low${n}: u32;\n`,
  );
  const names = values.map((_, n) => `lathe_high${n}, lathe_low${n}`).join(', ');
  const words = 2 * values.length;
  // A loop, because a driver that runs lanes one after the other at atomics compiles each of them to many instructions.
  return `${variables.join('')}fn lathe_store() {
  var lathe_all = array<u32, ${words}>(${names});
  for (var i = 0u; i < ${words}u; i++) {
    let word = ${2 * firstSite}u + i;
    if (atomicLoad(&lathe_counts[word]) < lathe_all[i]) { atomicMax(&lathe_counts[word], lathe_all[i]); }
  }
}
fn lathe_key(v: f32) -> u32 {
  let bits = bitcast<u32>(select(v, 0.0, v == 0.0));
  return select(bits | 0x80000000u, ~bits, bits >= 0x80000000u);
}
${text.join('')}`;
}

/** The value of a key. Keys are ordered as the values are. */
export function valueOfKey(element: ValueSite['element'], key: number): number {
  if (element === 'u32') return key;
  if (element === 'i32') return key ^ 0x80000000;
  const bits = key >= 0x80000000 ? key - 0x80000000 : ~key >>> 0;
  return new Float32Array(Uint32Array.of(bits).buffer)[0] as number;
}

/** Number of valid elements of a site when its buffer binding has `bufferBytes` bytes. */
export function elementCountAt({ elements }: AccessSite, bufferBytes: number): number {
  if (typeof elements === 'number') return elements;
  return Math.max(0, Math.floor((bufferBytes - elements.offset) / elements.stride));
}

/**
 * Passes every index into a storage buffer through `lathe_index`, every condition through `lathe_condition`, and the listed numbers
 * through `lathe_f32` and others, which return them unchanged. Line numbers do not change. The pipeline needs a group 1 with one storage buffer at binding 0, zeroed before each dispatch.
 */
export function instrument(
  source: string,
  reflection: Reflection,
  conditions: readonly ConditionSite[] = [],
  { values = [], entryPoint = 'main' }: { values?: readonly ValueSite[]; entryPoint?: string } = {},
): InstrumentedSource {
  const { tokens } = reflection;
  const nameConflicts = findNameConflicts(reflection);
  if (nameConflicts.length > 0)
    return { source, sites: [], conditions: [], values: [], uncheckedFindings: nameConflicts };

  const sites: AccessSite[] = [];
  const inserts: { offset: number; text: string }[] = [];
  const closings: { offset: number; text: string }[] = [];
  const countOf: CountOf = (count) => reflection.evaluate(count);
  for (const { use, variable } of storageUses(reflection)) {
    const { from, to, steps } = followAccess(reflection, use.token, variable.type);
    for (const step of steps) {
      const length = lengthOf(step, countOf);
      const open = tokens[step.openToken];
      const close = tokens[step.closeToken];
      if (length === undefined || !open || !close) continue;
      const isLiteral =
        step.closeToken === step.openToken + 2 && tokens[step.openToken + 1]?.kind === 'number';
      if (isLiteral && length.fixed) continue; // checked by the compiler
      inserts.push({ offset: open.offset + 1, text: `lathe_index(${sites.length}u, u32(` });
      closings.push({ offset: close.offset, text: `), ${length.text})` });
      const isAddressTaken = isAddressOf(tokens, from - 1) && variable.access === 'read_write';
      sites.push({
        binding: variable.name,
        isWrite: use.isAssigned || isAddressTaken,
        elements: elementsOf(step, variable.type, countOf),
        ...locationOf(tokens, { from, to: Math.min(to, step.closeToken + 1) }),
      });
    }
  }
  // At one offset, the outer of two is opened first and closed last. An index is outside of what is in its brackets.
  const wrapped = [
    ...conditions.map((site, index) => ({ ...site, number: sites.length + index, element: undefined })),
    ...values.map((site, index) => ({
      ...site,
      number: sites.length + conditions.length + index,
      body: undefined,
    })),
  ].sort((a, b) => a.from - b.from || b.to - a.to);
  for (const { from, width, body, number, element } of wrapped) {
    const suffix = width === 1 ? '' : element === undefined ? `${width}` : `_${width}`;
    const name = `lathe_${element ?? 'condition'}${suffix}`;
    const first = tokens[from];
    const open =
      element !== undefined
        ? `${name}(`
        : body === undefined
          ? `${name}(${number}u, `
          : '{ var lathe_turns = 0u; ';
    if (first) inserts.push({ offset: first.offset, text: open });
    const brace = body === undefined ? undefined : tokens[body];
    if (brace) inserts.push({ offset: brace.offset + 1, text: ` lathe_turn(${number}u, &lathe_turns);` });
  }
  const firstValue = sites.length + conditions.length;
  const closed = wrapped.toSorted((a, b) => a.to - b.to || b.from - a.from);
  for (const { to, body, number, element } of closed) {
    const last = tokens[to - 1];
    const n = number - firstValue;
    const text =
      element !== undefined ? `, &lathe_high${n}, &lathe_low${n})` : body === undefined ? ')' : ' }';
    if (last) inserts.push({ offset: last.offset + last.length, text });
  }
  if (values.length > 0)
    for (const { offset } of endsOf(reflection, entryPoint))
      closings.push({ offset, text: 'lathe_store(); ' });
  inserts.push(...closings);
  inserts.sort((a, b) => a.offset - b.offset);
  let text = '';
  let at = 0;
  for (const insert of inserts) {
    text += source.slice(at, insert.offset) + insert.text;
    at = insert.offset;
  }
  return {
    source: `${text}${source.slice(at)}${helperSource}${valueHelpers(values, sites.length + conditions.length)}`,
    sites,
    conditions,
    values,
    uncheckedFindings: findUncheckedPointers(reflection),
  };
}

/** The tokens before which a function ends: each `return`, and its last brace. */
function endsOf(reflection: Reflection, name: string): Token[] {
  const { tokens } = reflection;
  const fn = reflection.functions.find((one) => one.name === name);
  if (!fn) return [];
  const ends: Token[] = [];
  const body = bodyOf(tokens, fn);
  const statements = readStatements(tokens, body);
  const visit = (statement: Statement): void => {
    const token = tokens[statement.from];
    if (statement.kind === 'return' && token) ends.push(token);
    childrenOf(statement).forEach(visit);
  };
  statements.forEach(visit);
  const brace = tokens[body.to];
  if (statements.at(-1)?.kind !== 'return' && brace) ends.push(brace);
  return ends;
}

/** Findings for pointers to a whole storage buffer or to an array in it: accesses through them cannot be checked. */
export function findUncheckedPointers(reflection: Reflection): Finding[] {
  const { tokens } = reflection;
  return storageUses(reflection).flatMap(({ use, variable }) => {
    const { from, to, type } = followAccess(reflection, use.token, variable.type);
    if (!isAddressOf(tokens, from - 1) || tokens[from - 3]?.text === 'arrayLength') return [];
    if (!type || !typeComponents(type).has('array')) return [];
    const message = `accesses through a pointer to ${variable.name} are not bounds-checked; index ${variable.name} directly`;
    return [
      createFinding('unchecked_pointer', 'warning', message, locationOf(tokens, { from: from - 1, to })),
    ];
  });
}

function storageUses(reflection: Reflection): { use: NameUse; variable: Variable }[] {
  const buffers = new Map(
    reflection.variables.filter(({ space }) => space === 'storage').map((one) => [one.name, one]),
  );
  return reflection.functions.flatMap((fn) =>
    findUses(reflection, fn).flatMap((use) => {
      const variable = buffers.get(use.name);
      return variable ? [{ use, variable }] : [];
    }),
  );
}

/** Findings for declarations, including locals, that would change the meaning of the added code. */
function findNameConflicts({ tokens }: Reflection): Finding[] {
  let depth = 0;
  return tokens.flatMap((token, index) => {
    if (token.text === '{') depth++;
    if (token.text === '}') depth--;
    const isUsed = helperNames.has(token.text) || (depth === 0 && moduleNames.has(token.text));
    if (token.kind !== 'name' || !isUsed) return [];
    const before = tokens[index - 1];
    // At depth 0, a name with a type is a parameter.
    const isTyped = tokens[index + 1]?.text === ':' && helperNames.has(token.text);
    const ofTemplate = before?.text === '>' && tokens[before.matchIndex - 1]?.text === 'var';
    if (!isTyped && !ofTemplate && !declarationKeywords.has(before?.text ?? '')) return [];
    const message = `'${token.text}' is declared here, which prevents bounds checks; choose another name`;
    return [createFinding('reserved_name', 'warning', message, token)];
  });
}

const declarationKeywords: ReadonlySet<string> = new Set([
  'let',
  'var',
  'const',
  'override',
  'fn',
  'struct',
  'alias',
]);

function lengthOf(step: IndexStep, countOf: CountOf): { text: string; fixed: boolean } | undefined {
  const { indexedType: type, path } = step;
  if (type.kind === 'array' && !type.count) return { text: `arrayLength(&${path})`, fixed: false };
  const fixed = fixedLength(type, countOf);
  return fixed === undefined ? undefined : { text: `${fixed}u`, fixed: true };
}

function fixedLength(type: Type, countOf: CountOf): number | undefined {
  if (type.kind === 'array') return type.count && countOf(type.count);
  if (type.kind === 'vector') return type.width;
  return type.kind === 'matrix' ? type.columns : undefined;
}

function elementsOf({ indexedType: type }: IndexStep, root: Type, countOf: CountOf): AccessSite['elements'] {
  const fixed = fixedLength(type, countOf);
  if (fixed !== undefined || type.kind !== 'array') return fixed ?? 0;
  const last = root.kind === 'struct' ? structLayout(root.struct, countOf)?.at(-1) : undefined;
  const stride = strideOf(type.element, countOf) ?? sizeOf(type.element, countOf) ?? 4;
  return { offset: last?.offset ?? 0, stride };
}
