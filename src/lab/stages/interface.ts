/** Interface stage of the gate: checks a module against its op, its registration and the adapter, without GPU work. */
import type { Contract } from '../../../kernels/contracts.ts';
import type { Finding, KernelRegistration } from '../types.ts';
import type { EntryPoint, Reflection } from '../wgsl/reflect.ts';
import { checkBindings } from './interface-bindings.ts';
import { checkRegistration } from './interface-registration.ts';
import { checkWorkgroup } from './interface-workgroup.ts';
import { byLocation, createFinding } from './codes.ts';

/** A `GPUDevice` satisfies it. */
export interface DeviceCapabilities {
  readonly limits: Pick<
    GPUSupportedLimits,
    | 'maxComputeInvocationsPerWorkgroup'
    | 'maxComputeWorkgroupSizeX'
    | 'maxComputeWorkgroupSizeY'
    | 'maxComputeWorkgroupSizeZ'
    | 'maxComputeWorkgroupStorageSize'
    | 'maxStorageBuffersPerShaderStage'
  >;
  readonly features: Iterable<string>;
}

/** Returns all findings, sorted by source location. A finding without one concerns the registration. Does not throw. */
export function checkInterface(
  registration: KernelRegistration,
  contract: Contract,
  reflection: Reflection,
  device: DeviceCapabilities,
): Finding[] {
  const name = registration.entry_point ?? 'main';
  const entry = reflection.entryPoints.find((one) => one.name === name);
  const findings = [
    ...checkEntryPoint(name, entry, reflection),
    ...checkBindings(contract, reflection, entry),
    ...checkRegistration(registration, contract, reflection, device),
  ];
  const storage = contract.bindings.filter(({ role }) => role !== 'uniform').length;
  const maxBuffers = device.limits.maxStorageBuffersPerShaderStage;
  if (storage > maxBuffers) {
    const message = `maxStorageBuffersPerShaderStage: expected at least ${storage} for ${contract.op}, got ${maxBuffers}`;
    findings.push(createFinding('too_many_storage_buffers', 'error', message));
  }
  if (entry?.stage === 'compute') findings.push(...checkWorkgroup(registration, reflection, entry, device));
  return findings.sort(byLocation);
}

function checkEntryPoint(
  name: string,
  entry: EntryPoint | undefined,
  { entryPoints }: Reflection,
): Finding[] {
  if (entry?.stage === 'compute') return [];
  if (entry) {
    const message = `${name}: expected a compute shader, got a ${entry.stage} shader`;
    return [createFinding('entry_point_stage', 'error', message, entry)];
  }
  const list = entryPoints.map((one) => `${one.name} (${one.stage})`).join(', ');
  const message = `expected an entry point '${name}', got ${list || 'no entry point'}`;
  return [createFinding('missing_entry_point', 'error', message)];
}
