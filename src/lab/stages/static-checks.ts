/** Static checks of a kernel, without a device: interface and safety. */
import { contracts } from '../../../kernels/contracts.ts';
import { errorMessage } from '../../util/error-message.ts';
import type { Finding, KernelRegistration } from '../types.ts';
import { reflect } from '../wgsl/reflect.ts';
import { checkInterface } from './interface.ts';
import { checkSafety } from './safety.ts';

export interface StaticDeviceCapabilities {
  readonly limits: GPUSupportedLimits;
  readonly features: readonly string[];
}

export function staticFindings(
  registration: KernelRegistration,
  device: StaticDeviceCapabilities,
): Finding[] {
  const contract = contracts.get(registration.op);
  if (!contract) return [];
  try {
    const reflection = reflect(registration.source);
    return [
      ...checkInterface(registration, contract, reflection, device),
      ...checkSafety(reflection, contract),
    ];
  } catch (error) {
    const message = `the source cannot be parsed: ${errorMessage(error)}`;
    return [{ code: 'wgsl_error', severity: 'error', message }];
  }
}
