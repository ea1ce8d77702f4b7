/** Checks workgroup size and memory against the adapter's limits, for every tunable combination. */
import type { Finding, KernelRegistration } from '../types.ts';
import {
  variableBytes,
  workgroupSize,
  type EntryPoint,
  type OverrideValues,
  type Reflection,
  type Variable,
} from '../wgsl/reflect.ts';
import type { Place } from '../wgsl/tokens.ts';
import { reachableFrom } from '../wgsl/uses.ts';
import { finding, type FindingCode } from './codes.ts';
import { combinationsOf } from './combinations.ts';
import type { DeviceFacts } from './interface.ts';

interface Excess {
  readonly code: FindingCode;
  readonly limit: string;
  readonly text: string;
  readonly place: Place;
}

/**
 * Returns one finding for each limit, with the first combination that exceeds it. It is a warning if another
 * combination is within all limits, because the gate then skips only the invalid ones.
 */
export function checkWorkgroup(
  registration: KernelRegistration,
  reflection: Reflection,
  entry: EntryPoint,
  { limits }: DeviceFacts,
): Finding[] {
  const used = reachableFrom(reflection, entry.name);
  const variables = reflection.variables.filter(({ name, space }) => space === 'workgroup' && used.has(name));
  const all = combinationsOf(registration).map((values) => ({
    values,
    excesses: [
      ...sizeExcesses(reflection, entry, values, limits),
      ...memoryExcesses(reflection, variables, values, limits),
    ],
  }));
  const severity = all.some(({ excesses }) => excesses.length === 0) ? 'warning' : 'error';
  const found = new Map<string, Finding>();
  for (const { values, excesses } of all) {
    const list = Object.entries(values).map(([name, value]) => `${name}=${value}`);
    const suffix = list.length > 0 ? ` with ${list.join(' ')}` : '';
    for (const { code, limit, text, place } of excesses) {
      if (!found.has(limit)) found.set(limit, finding(code, severity, `${limit}: ${text}${suffix}`, place));
    }
  }
  return [...found.values()];
}

function sizeExcesses(
  reflection: Reflection,
  entry: EntryPoint,
  values: OverrideValues,
  limits: DeviceFacts['limits'],
): Excess[] {
  const place = entry.workgroupPlace ?? entry;
  const size = workgroupSize(reflection, entry, values);
  const wrong = size.flatMap((value, axis): Excess[] => {
    if (value === undefined || (Number.isInteger(value) && value > 0)) return [];
    const text = `expected a whole number above 0, got ${value}`;
    return [{ code: 'workgroup_size', limit: `workgroup_size ${'xyz'[axis]}`, text, place }];
  });
  const [x = 1, y = 1, z = 1] = size;
  const wanted = {
    maxComputeWorkgroupSizeX: x,
    maxComputeWorkgroupSizeY: y,
    maxComputeWorkgroupSizeZ: z,
    maxComputeInvocationsPerWorkgroup: x * y * z,
  };
  const large = Object.entries(wanted).flatMap(([limit, got]): Excess[] => {
    const most = limits[limit as keyof typeof wanted];
    if (got <= most) return [];
    return [{ code: 'workgroup_size', limit, text: `expected at most ${most}, got ${got}`, place }];
  });
  return [...wrong, ...large];
}

function memoryExcesses(
  reflection: Reflection,
  variables: readonly Variable[],
  values: OverrideValues,
  limits: DeviceFacts['limits'],
): Excess[] {
  let bytes = 0;
  const [place] = variables;
  for (const variable of variables) {
    // WebGPU rounds each variable up to 16 bytes.
    bytes += Math.ceil((variableBytes(reflection, variable, values) ?? 0) / 16) * 16;
  }
  const most = limits.maxComputeWorkgroupStorageSize;
  if (!place || bytes <= most) return [];
  const list = variables.map(({ name }) => name).join(', ');
  const text = `expected at most ${most} bytes, got ${bytes} (${list})`;
  return [{ code: 'workgroup_memory', limit: 'maxComputeWorkgroupStorageSize', text, place }];
}
