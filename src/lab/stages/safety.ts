/** Safety stage of the gate: static checks that reject a kernel or warn about it. */
import type { Contract } from '../../../kernels/contracts.ts';
import type { Finding } from '../types.ts';
import { findConstantConditions } from '../wgsl/conditions.ts';
import { findHiddenConditions, type HiddenCondition } from '../wgsl/hidden-conditions.ts';
import { findUncheckedPointers } from '../wgsl/instrument.ts';
import { findSuspiciousLoops, type SuspiciousLoop } from '../wgsl/loops.ts';
import { bodyOf, variableSizeBytes, type Reflection, type Variable } from '../wgsl/reflect.ts';
import { childrenOf, readStatements, type Statement } from '../wgsl/statements.ts';
import { typeComponents, sizeOf } from '../wgsl/types.ts';
import { byLocation, createFinding } from './codes.ts';

const allowedExtensions: ReadonlySet<string> = new Set(['f16', 'subgroups']);
const allowedLanguageFeatures: ReadonlySet<string> = new Set([
  'packed_4x8_integer_dot_product',
  'pointer_composite_access',
  'unrestricted_pointer_parameters',
  'uniform_buffer_standard_layout',
  'subgroup_id',
  'subgroup_uniformity',
  'linear_indexing',
]);
const maxPrivateBytes = 64 * 1024;

/**
 * Returns all findings, sorted by source location. Expects source that Tint accepts.
 * @param contract contract of the op that the kernel computes; built-in kernels have none
 */
export function checkSafety(reflection: Reflection, contract?: Contract): Finding[] {
  return [
    ...checkDirectives(reflection),
    ...reflection.variables.flatMap(checkVariable),
    ...findSuspiciousLoops(reflection).map(loopFinding),
    ...findUncheckedPointers(reflection),
    ...checkArrayLengths(reflection),
    ...checkConditions(reflection, contract),
    ...checkPrivateMemory(reflection),
  ].sort(byLocation);
}

function checkDirectives({ enables: enabled, requires }: Reflection): Finding[] {
  const check = (
    code: 'unsupported_enable' | 'unsupported_requires',
    list: Reflection['enables'],
    known: ReadonlySet<string>,
  ) =>
    list
      .filter(({ name }) => !known.has(name))
      .map((one) =>
        createFinding(code, 'error', `expected one of ${[...known].join(', ')}, got ${one.name}`, one),
      );
  return [
    ...check('unsupported_enable', enabled, allowedExtensions),
    ...check('unsupported_requires', requires, allowedLanguageFeatures),
  ];
}

const allowedSpaces: ReadonlySet<string> = new Set(['storage', 'uniform', 'workgroup', 'private', 'handle']);

function checkVariable(variable: Variable): Finding[] {
  const { name, space, type, typeText } = variable;
  const findings: Finding[] = [];
  if (space === 'handle') {
    const message = `expected a storage or uniform buffer, got ${name} of ${typeText}`;
    findings.push(createFinding('unsupported_resource', 'error', message, variable.typeLocation));
  } else if (!allowedSpaces.has(space)) {
    const message = `expected ${[...allowedSpaces].join(', ')}, got var<${space}>`;
    findings.push(createFinding('unsupported_address_space', 'error', message, variable));
  }
  if (variable.isResource && variable.group !== 0) {
    const got = variable.group === undefined ? 'one that is not known' : String(variable.group);
    findings.push(createFinding('wrong_group', 'error', `${name}: expected group 0, got ${got}`, variable));
  }
  if (space === 'storage' && typeComponents(type).has('atomic')) {
    const message = `${name}: expected non-atomic elements, got ${typeText}; results must not depend on the order of invocations`;
    findings.push(createFinding('atomic_binding', 'error', message, variable.typeLocation));
  }
  return findings;
}

function loopFinding({ kind, variables, location }: SuspiciousLoop): Finding {
  const list = variables.join(', ');
  switch (kind) {
    case 'spin':
      return createFinding(
        'spin_wait',
        'error',
        `only writes to ${list} by other invocations can end this loop; they are not guaranteed to run before it ends`,
        location,
      );
    case 'endless':
      return createFinding(
        'endless_loop',
        'error',
        `nothing in this loop changes its exit condition${list ? ` (it tests ${list})` : ''}`,
        location,
      );
    case 'unbounded':
      return createFinding(
        'unbounded_loop',
        'warning',
        `no exit of this loop compares ${list} with a bound by <, <=, > or >=, and its steps can pass over an equal value; a compiler that removes the loop hides that it never ends`,
        location,
      );
    case 'data':
      return createFinding(
        'data_dependent_loop',
        'warning',
        `the exit of this loop depends only on values of ${list}; add a counter with a bound, so that it ends for all values`,
        location,
      );
  }
}

/**
 * Buffer lengths are not part of a contract: in the live graph, buffers have room for the largest step. A kernel that
 * depends on them behaves differently there than in the gate.
 */
function checkArrayLengths({ tokens }: Reflection): Finding[] {
  return tokens
    .filter(
      ({ kind, text }, index) => kind === 'name' && text === 'arrayLength' && tokens[index + 1]?.text === '(',
    )
    .map((token) => {
      const message =
        'buffers of the live graph have room for more rows than a step has, so their length differs from the gate; use the sizes in params and step';
      return createFinding('array_length', 'warning', message, token);
    });
}

/** Further conditions are only counted. */
const maxConditions = 6;

function checkConditions(reflection: Reflection, contract: Contract | undefined): Finding[] {
  const constants = findConstantConditions(reflection).map(({ compared, constant, isMagnitude, location }) =>
    createFinding(
      'constant_condition',
      isMagnitude ? 'info' : 'warning',
      `${compared} is compared with ${constant}: cases may lie on one side of it only, so the kernel can be wrong where it was not checked`,
      location,
    ),
  );
  const known = new Set(constants.map(placeOf));
  const hidden = findHiddenConditions(reflection, contract)
    .map(hiddenFinding)
    .filter((one) => !known.has(placeOf(one)));
  const all = [...constants, ...hidden].sort(byLocation);
  // Warnings first, so that information does not take their place.
  const first = new Set(
    [...all]
      .sort((a, b) => Number(a.severity === 'info') - Number(b.severity === 'info'))
      .slice(0, maxConditions),
  );
  const more = all.length - first.size;
  return [
    ...all.filter((one) => first.has(one)),
    ...(more > 0
      ? [
          createFinding(
            'constant_condition',
            'warning',
            `${more} more conditions compare inputs with constants or with one another`,
          ),
        ]
      : []),
  ];
}

const placeOf = ({ line, column }: Finding): string => `${line} ${column}`;

function hiddenFinding({ kind, compared, how, isMagnitude, location }: HiddenCondition): Finding {
  const severity = isMagnitude ? 'info' : 'warning';
  if (kind === 'inexact')
    return createFinding(
      'inexact_index',
      'warning',
      `${compared}, which was made of integers, is ${how}: floats do not have all integers from 2^24 on (f16: from 2^11), so large models or contexts get wrong ones; compute with integers`,
      location,
    );
  return kind === 'constant'
    ? createFinding(
        'constant_condition',
        severity,
        `${compared} is ${how}: this tells one value from others, on one side of which all cases may lie, so the kernel can be wrong where it was not checked`,
        location,
      )
    : createFinding(
        'data_condition',
        severity,
        `${compared} is ${how}: the kernel tells data or sizes that are equal from others, and cases may have only one of them, so it can be wrong where it was not checked`,
        location,
      );
}

function checkPrivateMemory(reflection: Reflection): Finding[] {
  const { tokens } = reflection;
  let bytes = 0;
  for (const variable of reflection.variables) {
    if (variable.space === 'private') bytes += variableSizeBytes(reflection, variable) ?? 0;
  }
  const add = (statement: Statement): void => {
    if (statement.kind === 'declare' && statement.keyword === 'var') {
      const range = statement.type ?? statement.value;
      bytes += (range && sizeOf(reflection.typeAt(range), (count) => reflection.evaluate(count))) ?? 0;
    }
    childrenOf(statement).forEach(add);
  };
  for (const fn of reflection.functions) readStatements(tokens, bodyOf(tokens, fn)).forEach(add);
  if (bytes <= maxPrivateBytes) return [];
  const message = `expected at most ${maxPrivateBytes} bytes of private and function variables, got ${bytes}; they will not fit in registers`;
  return [createFinding('large_private_memory', 'warning', message)];
}
