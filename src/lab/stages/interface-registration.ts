/** Checks overrides, tunables, dispatch, features and weight formats of a registration against its module and op. */
import type { Contract } from '../../../kernels/contracts.ts';
import { formatNames } from '../../../kernels/formats.ts';
import { countCombinations, maxCombinations } from './combinations.ts';
import { compileExpression, ExpressionError } from '../expression.ts';
import type { Finding, KernelRegistration } from '../types.ts';
import type { Override, Reflection } from '../wgsl/reflect.ts';
import { createFinding } from './codes.ts';
import type { DeviceCapabilities } from './interface.ts';

export function checkRegistration(
  registration: KernelRegistration,
  contract: Contract,
  reflection: Reflection,
  device: DeviceCapabilities,
): Finding[] {
  return [
    ...checkOverrides(registration, reflection),
    ...checkTunables(registration),
    ...checkDispatch(registration, contract, reflection),
    ...checkFeatures(registration, reflection, device),
    ...checkFormats(registration, contract),
  ];
}

function checkOverrides(
  { overrides = {}, tunables = {} }: KernelRegistration,
  reflection: Reflection,
): Finding[] {
  const findings: Finding[] = [];
  const declared = new Map(reflection.overrides.map((one) => [one.name, one]));
  const list = [...declared.keys()].join(', ') || 'none';
  const entries: [where: string, name: string, values: readonly number[]][] = [
    ...Object.entries(overrides).map(
      ([name, value]) => ['overrides', name, [value]] as [string, string, number[]],
    ),
    ...Object.entries(tunables).map(
      ([name, values]) => ['tunables', name, values] as [string, string, number[]],
    ),
  ];
  for (const [where, name, values] of entries) {
    const override = declared.get(name);
    if (!override) {
      const message = `${where}.${name}: expected an override of the module (${list}), got ${name}`;
      findings.push(createFinding('unknown_override', 'error', message));
      continue;
    }
    for (const value of values) {
      const expected = expectedValue(override, value);
      if (expected === undefined) continue;
      const message = `${where}.${name}: expected ${expected}, got ${value}`;
      findings.push(createFinding('override_value', 'error', message, override));
    }
  }
  for (const override of declared.values()) {
    const { name, hasDefault, id } = override;
    if (!hasDefault && !Object.hasOwn(overrides, name) && !Object.hasOwn(tunables, name)) {
      const message = `${name}: expected a default, or a value in overrides or tunables, got none`;
      findings.push(createFinding('missing_override', 'error', message, override));
    }
    if (id !== undefined) {
      const message = `${name}: expected no @id, got @id(${id}); overrides are set by name`;
      findings.push(createFinding('override_id', 'error', message, override));
    }
  }
  return findings;
}

/** Describes the expected values, if the given one does not fit the override. */
function expectedValue({ type }: Override, value: number): string | undefined {
  const isWhole = Number.isInteger(value);
  switch (type) {
    case 'u32':
      return isWhole && value >= 0 && value < 2 ** 32 ? undefined : 'a whole number from 0 to 4294967295';
    case 'i32':
      return isWhole && Math.abs(value + 0.5) < 2 ** 31
        ? undefined
        : 'a whole number from -2147483648 to 2147483647';
    case 'bool':
      return value === 0 || value === 1 ? undefined : '0 or 1';
    case 'f16':
      return Math.abs(value) <= 65504 ? undefined : 'a number that f16 can hold';
    case 'f32':
    case undefined:
      return Math.abs(value) <= 3.4028234663852886e38 ? undefined : 'a number that f32 can hold';
  }
}

function checkTunables(registration: KernelRegistration): Finding[] {
  const findings: Finding[] = [];
  for (const [name, values] of Object.entries(registration.tunables ?? {})) {
    if (values.length > 0) continue;
    findings.push(
      createFinding('empty_tunable', 'error', `tunables.${name}: expected values to try, got none`),
    );
  }
  const count = countCombinations(registration);
  if (count > maxCombinations) {
    const message = `tunables: expected at most ${maxCombinations} combinations, got ${count}`;
    findings.push(createFinding('too_many_combinations', 'error', message));
  }
  return findings;
}

function checkDispatch(
  { dispatch }: KernelRegistration,
  contract: Contract,
  reflection: Reflection,
): Finding[] {
  // `context` differs between the rows of a step, so it is not available to dispatch expressions.
  const dims = contract.dims.filter(({ name }) => name !== 'context');
  const known = [...dims, ...reflection.overrides].map(({ name }) => name);
  const findings: Finding[] = [];
  for (const axis of ['x', 'y', 'z'] as const) {
    const text = dispatch[axis];
    if (text === undefined) continue;
    try {
      for (const name of compileExpression(text).names) {
        if (known.includes(name)) continue;
        const message = `dispatch.${axis}: expected a dim of ${contract.op} or an override (${known.join(', ')}), got ${name} in '${text}'`;
        findings.push(createFinding('dispatch_name', 'error', message));
      }
    } catch (error) {
      if (!(error instanceof ExpressionError)) throw error;
      const message = `dispatch.${axis}: ${error.message} at character ${error.position + 1} of '${text.slice(0, 200)}'`;
      findings.push(createFinding('dispatch_syntax', 'error', message));
    }
  }
  return findings;
}

/** Device feature that each WGSL extension needs. */
const featureOf = new Map([
  ['f16', 'shader-f16'],
  ['subgroups', 'subgroups'],
]);

function checkFeatures(
  { requires = [] }: KernelRegistration,
  { enables }: Reflection,
  { features }: DeviceCapabilities,
): Finding[] {
  const findings: Finding[] = [];
  const required = new Set<string>(requires);
  const available = new Set(features);
  const enabled = new Map(enables.map((one) => [featureOf.get(one.name) ?? '', one]));
  for (const feature of required) {
    const enable = enabled.get(feature);
    if (!available.has(feature)) {
      const message = `requires: expected a feature of this adapter, got ${feature}`;
      findings.push(createFinding('feature_missing', 'error', message, enable));
    } else if (!enable) {
      findings.push(
        createFinding('feature_unused', 'warning', `requires ${feature}, but the source does not enable it`),
      );
    }
  }
  for (const [feature, enable] of enabled) {
    if (feature === '' || required.has(feature)) continue;
    if (available.has(feature)) {
      const message = `enable ${enable.name} needs ${feature}, which is not listed in requires; it is added`;
      findings.push(createFinding('feature_implied', 'info', message, enable));
    } else {
      const message = `enable ${enable.name}: expected the feature ${feature}, got an adapter without it`;
      findings.push(createFinding('feature_missing', 'error', message, enable));
    }
  }
  return findings;
}

function checkFormats({ dtypes = [] }: KernelRegistration, contract: Contract): Finding[] {
  if (dtypes.length === 0) return [];
  if (!contract.bindings.some(({ dtype }) => dtype === 'weights')) {
    const message = `dtypes: expected none, as ${contract.op} reads no weights, got ${dtypes.join(', ')}`;
    return [createFinding('dtype_not_applicable', 'error', message)];
  }
  const known: readonly string[] = formatNames;
  return dtypes
    .filter((dtype) => !known.includes(dtype))
    .map((dtype) =>
      createFinding('unknown_dtype', 'error', `dtypes: expected ${known.join(', ')}, got ${dtype}`),
    );
}
