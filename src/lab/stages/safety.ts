/** Safety stage of the gate: static checks that reject a kernel or warn about it. */
import type { Finding } from '../types.ts';
import { uncheckedPointers } from '../wgsl/instrument.ts';
import { doubtfulLoops, type DoubtfulLoop } from '../wgsl/loops.ts';
import { bodyOf, variableBytes, type Reflection, type Variable } from '../wgsl/reflect.ts';
import { childrenOf, readStatements, type Statement } from '../wgsl/statements.ts';
import { partsOf, sizeOf } from '../wgsl/types.ts';
import { byPlace, finding } from './codes.ts';

const enables: ReadonlySet<string> = new Set(['f16', 'subgroups']);
const languageFeatures: ReadonlySet<string> = new Set([
  'packed_4x8_integer_dot_product',
  'pointer_composite_access',
  'unrestricted_pointer_parameters',
  'uniform_buffer_standard_layout',
  'subgroup_id',
  'subgroup_uniformity',
  'linear_indexing',
]);
const privateBytes = 64 * 1024;

/** Returns all findings, sorted by source location. Expects source that Tint accepts. */
export function checkSafety(reflection: Reflection): Finding[] {
  return [
    ...directives(reflection),
    ...reflection.variables.flatMap(checkVariable),
    ...doubtfulLoops(reflection).map(loopFinding),
    ...uncheckedPointers(reflection),
    ...arrayLengths(reflection),
    ...privateMemory(reflection),
  ].sort(byPlace);
}

function directives({ enables: enabled, requires }: Reflection): Finding[] {
  const check = (
    code: 'unsupported_enable' | 'unsupported_requires',
    list: Reflection['enables'],
    known: ReadonlySet<string>,
  ) =>
    list
      .filter(({ name }) => !known.has(name))
      .map((one) => finding(code, 'error', `expected one of ${[...known].join(', ')}, got ${one.name}`, one));
  return [
    ...check('unsupported_enable', enabled, enables),
    ...check('unsupported_requires', requires, languageFeatures),
  ];
}

const spaces: ReadonlySet<string> = new Set(['storage', 'uniform', 'workgroup', 'private', 'handle']);

function checkVariable(variable: Variable): Finding[] {
  const { name, space, type, typeText } = variable;
  const findings: Finding[] = [];
  if (space === 'handle') {
    const message = `expected a storage or uniform buffer, got ${name} of ${typeText}`;
    findings.push(finding('unsupported_resource', 'error', message, variable.typePlace));
  } else if (!spaces.has(space)) {
    const message = `expected ${[...spaces].join(', ')}, got var<${space}>`;
    findings.push(finding('unsupported_address_space', 'error', message, variable));
  }
  if (variable.isResource && variable.group !== 0) {
    const got = variable.group === undefined ? 'one that is not known' : String(variable.group);
    findings.push(finding('wrong_group', 'error', `${name}: expected group 0, got ${got}`, variable));
  }
  if (space === 'storage' && partsOf(type).has('atomic')) {
    const message = `${name}: expected non-atomic elements, got ${typeText}; results must not depend on the order of invocations`;
    findings.push(finding('atomic_binding', 'error', message, variable.typePlace));
  }
  return findings;
}

function loopFinding({ kind, variables, place }: DoubtfulLoop): Finding {
  const list = variables.join(', ');
  switch (kind) {
    case 'spin':
      return finding(
        'spin_wait',
        'error',
        `only writes to ${list} by other invocations can end this loop; they are not guaranteed to run before it ends`,
        place,
      );
    case 'endless':
      return finding(
        'endless_loop',
        'error',
        `nothing in this loop changes its exit condition${list ? ` (it tests ${list})` : ''}`,
        place,
      );
    case 'data':
      return finding(
        'data_dependent_loop',
        'warning',
        `the exit of this loop depends only on values of ${list}; add a counter with a bound, so that it ends for all values`,
        place,
      );
  }
}

/**
 * Buffer lengths are not part of a contract: in the live graph, buffers have room for the largest step. A kernel that
 * depends on them behaves differently there than in the gate.
 */
function arrayLengths({ tokens }: Reflection): Finding[] {
  return tokens
    .filter(
      ({ kind, text }, index) => kind === 'name' && text === 'arrayLength' && tokens[index + 1]?.text === '(',
    )
    .map((token) => {
      const message =
        'buffers of the live graph have room for more rows than a step has, so their length differs from the gate; use the sizes in params and step';
      return finding('array_length', 'warning', message, token);
    });
}

function privateMemory(reflection: Reflection): Finding[] {
  const { tokens } = reflection;
  let bytes = 0;
  for (const variable of reflection.variables) {
    if (variable.space === 'private') bytes += variableBytes(reflection, variable) ?? 0;
  }
  const add = (statement: Statement): void => {
    if (statement.kind === 'declare' && statement.keyword === 'var') {
      const range = statement.type ?? statement.value;
      bytes += (range && sizeOf(reflection.typeAt(range), (count) => reflection.evaluate(count))) ?? 0;
    }
    childrenOf(statement).forEach(add);
  };
  for (const fn of reflection.functions) readStatements(tokens, bodyOf(tokens, fn)).forEach(add);
  if (bytes <= privateBytes) return [];
  const message = `expected at most ${privateBytes} bytes of private and function variables, got ${bytes}; they will not fit in registers`;
  return [finding('large_private_memory', 'warning', message)];
}
