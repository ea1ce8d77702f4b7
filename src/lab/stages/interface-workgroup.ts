/** Checks workgroup size and memory against the adapter's limits, for every tunable combination. */
import type { Finding, KernelRegistration } from '../types.ts';
import {
  variableSizeBytes,
  workgroupSize,
  type EntryPoint,
  type OverrideValues,
  type Reflection,
  type Variable,
} from '../wgsl/reflect.ts';
import type { SourceLocation } from '../wgsl/tokens.ts';
import { findReachableNames } from '../wgsl/uses.ts';
import { createFinding, type FindingCode } from './codes.ts';
import { combinationsOf } from './combinations.ts';
import type { DeviceCapabilities } from './interface.ts';

interface LimitExcess {
  readonly code: FindingCode;
  readonly limit: string;
  readonly text: string;
  readonly location: SourceLocation;
}

/**
 * Returns one finding for each limit, with the first combination that exceeds it. It is a warning if another
 * combination is within all limits, because the gate then skips only the invalid ones.
 */
export function checkWorkgroup(
  registration: KernelRegistration,
  reflection: Reflection,
  entry: EntryPoint,
  { limits }: DeviceCapabilities,
): Finding[] {
  const used = findReachableNames(reflection, entry.name);
  const variables = reflection.variables.filter(({ name, space }) => space === 'workgroup' && used.has(name));
  const all = combinationsOf(registration).map((values) => ({
    values,
    excesses: [
      ...sizeExcesses(reflection, entry, values, limits),
      ...memoryExcesses(reflection, variables, values, limits),
    ],
  }));
  const severity = all.some(({ excesses }) => excesses.length === 0) ? 'warning' : 'error';
  const findingsByLimit = new Map<string, Finding>();
  for (const { values, excesses } of all) {
    const list = Object.entries(values).map(([name, value]) => `${name}=${value}`);
    const suffix = list.length > 0 ? ` with ${list.join(' ')}` : '';
    for (const { code, limit, text, location } of excesses) {
      if (!findingsByLimit.has(limit))
        findingsByLimit.set(limit, createFinding(code, severity, `${limit}: ${text}${suffix}`, location));
    }
  }
  return [...findingsByLimit.values()];
}

function sizeExcesses(
  reflection: Reflection,
  entry: EntryPoint,
  values: OverrideValues,
  limits: DeviceCapabilities['limits'],
): LimitExcess[] {
  const location = entry.workgroupLocation ?? entry;
  const size = workgroupSize(reflection, entry, values);
  const invalid = size.flatMap((value, axis): LimitExcess[] => {
    if (value === undefined || (Number.isInteger(value) && value > 0)) return [];
    const text = `expected a whole number above 0, got ${value}`;
    return [{ code: 'workgroup_size', limit: `workgroup_size ${'xyz'[axis]}`, text, location }];
  });
  const [x = 1, y = 1, z = 1] = size;
  const requested = {
    maxComputeWorkgroupSizeX: x,
    maxComputeWorkgroupSizeY: y,
    maxComputeWorkgroupSizeZ: z,
    maxComputeInvocationsPerWorkgroup: x * y * z,
  };
  const overLimit = Object.entries(requested).flatMap(([limit, got]): LimitExcess[] => {
    const limitValue = limits[limit as keyof typeof requested];
    if (got <= limitValue) return [];
    return [{ code: 'workgroup_size', limit, text: `expected at most ${limitValue}, got ${got}`, location }];
  });
  return [...invalid, ...overLimit];
}

function memoryExcesses(
  reflection: Reflection,
  variables: readonly Variable[],
  values: OverrideValues,
  limits: DeviceCapabilities['limits'],
): LimitExcess[] {
  let bytes = 0;
  const [location] = variables;
  for (const variable of variables) {
    // WebGPU rounds each variable up to 16 bytes.
    bytes += Math.ceil((variableSizeBytes(reflection, variable, values) ?? 0) / 16) * 16;
  }
  const limitValue = limits.maxComputeWorkgroupStorageSize;
  if (!location || bytes <= limitValue) return [];
  const list = variables.map(({ name }) => name).join(', ');
  const text = `expected at most ${limitValue} bytes, got ${bytes} (${list})`;
  return [{ code: 'workgroup_memory', limit: 'maxComputeWorkgroupStorageSize', text, location }];
}
