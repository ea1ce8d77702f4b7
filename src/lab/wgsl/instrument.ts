/**
 * Instruments a kernel to count out-of-bounds accesses to its buffers, and to record the outcomes of its conditions. Without it
 * such accesses go unnoticed: WebGPU's robust access discards such a write and returns an arbitrary value for such a read.
 */
import type { Finding } from '../types.ts';
import { createFinding } from '../stages/codes.ts';
import { followAccess, isAddressOf, type IndexStep } from './access.ts';
import type { Reflection, Variable } from './reflect.ts';
import { locationOf, type Range, type SourceLocation } from './tokens.ts';
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

export interface InstrumentedSource {
  readonly source: string;
  /** Each site has two words in `@group(1) @binding(0)`: the number of out-of-bounds indices, and the first of them. */
  readonly sites: readonly AccessSite[];
  /** Each has the two words after those of the accesses and the conditions before it: whether it was false, and true. */
  readonly conditions: readonly ConditionSite[];
  /** Accesses that this build does not check. */
  readonly uncheckedFindings: readonly Finding[];
}

/** Names that the added code uses. A module that redeclares one of them, also as a local variable, cannot be instrumented. */
const helperNames: ReadonlySet<string> = new Set(
  [
    'u32 array atomic arrayLength atomicAdd atomicStore lathe_index lathe_counts lathe_outcome',
    'lathe_condition lathe_condition2 lathe_condition3 lathe_condition4 lathe_turn lathe_turns',
  ].flatMap((names) => names.split(' ')),
);
/** Names that the added functions alone use: local variables may have them. */
const moduleNames: ReadonlySet<string> = new Set('bool vec2 vec3 vec4 any all atomicLoad ptr'.split(' '));

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

/** Number of valid elements of a site when its buffer binding has `bufferBytes` bytes. */
export function elementCountAt({ elements }: AccessSite, bufferBytes: number): number {
  if (typeof elements === 'number') return elements;
  return Math.max(0, Math.floor((bufferBytes - elements.offset) / elements.stride));
}

/**
 * Passes every index into a storage buffer through `lathe_index`, and every condition through `lathe_condition`, which return it
 * unchanged. Line numbers do not change. The pipeline needs a group 1 with one storage buffer at binding 0, zeroed before each dispatch.
 */
export function instrument(
  source: string,
  reflection: Reflection,
  conditions: readonly ConditionSite[] = [],
): InstrumentedSource {
  const { tokens } = reflection;
  const nameConflicts = findNameConflicts(reflection);
  if (nameConflicts.length > 0)
    return { source, sites: [], conditions: [], uncheckedFindings: nameConflicts };

  const sites: AccessSite[] = [];
  const inserts: { offset: number; text: string }[] = [];
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
      inserts.push(
        { offset: open.offset + 1, text: `lathe_index(${sites.length}u, u32(` },
        { offset: close.offset, text: `), ${length.text})` },
      );
      const isAddressTaken = isAddressOf(tokens, from - 1) && variable.access === 'read_write';
      sites.push({
        binding: variable.name,
        isWrite: use.isAssigned || isAddressTaken,
        elements: elementsOf(step, variable.type, countOf),
        ...locationOf(tokens, { from, to: Math.min(to, step.closeToken + 1) }),
      });
    }
  }
  // At one offset, the outer of two conditions is opened first and closed last.
  for (const [index, { from, width, body }] of conditions.entries()) {
    const name = width === 1 ? 'lathe_condition' : `lathe_condition${width}`;
    const first = tokens[from];
    const number = sites.length + index;
    const open = body === undefined ? `${name}(${number}u, ` : '{ var lathe_turns = 0u; ';
    if (first) inserts.push({ offset: first.offset, text: open });
    const brace = body === undefined ? undefined : tokens[body];
    if (brace) inserts.push({ offset: brace.offset + 1, text: ` lathe_turn(${number}u, &lathe_turns);` });
  }
  for (const { to, body } of conditions.toReversed()) {
    const last = tokens[to - 1];
    if (last) inserts.push({ offset: last.offset + last.length, text: body === undefined ? ')' : ' }' });
  }
  inserts.sort((a, b) => a.offset - b.offset);
  let text = '';
  let at = 0;
  for (const insert of inserts) {
    text += source.slice(at, insert.offset) + insert.text;
    at = insert.offset;
  }
  return {
    source: `${text}${source.slice(at)}${helperSource}`,
    sites,
    conditions,
    uncheckedFindings: findUncheckedPointers(reflection),
  };
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
