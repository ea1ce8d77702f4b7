/** Dawn's null backend: compiles and validates everything, and runs nothing. */
import { create, globals } from 'webgpu';

Object.assign(globalThis, globals);
// Kept for the lifetime of the process: Dawn crashes when an instance is released before its devices.
const gpu = create(['backend=null', 'enable-dawn-features=allow_unsafe_apis']);

/** A device with these features, and a list that collects uncaptured errors. */
export async function nullDevice(
  requiredFeatures: readonly string[] = ['shader-f16', 'subgroups'],
): Promise<{ device: GPUDevice; uncaptured: string[] }> {
  const adapter = await gpu.requestAdapter();
  if (!adapter) throw new Error('Dawn has no null backend');
  const { maxStorageBuffersPerShaderStage } = adapter.limits;
  const device = await adapter.requestDevice({
    requiredFeatures: [...requiredFeatures] as GPUFeatureName[],
    requiredLimits: { maxStorageBuffersPerShaderStage },
  });
  const uncaptured: string[] = [];
  device.addEventListener('uncapturederror', ({ error }) => uncaptured.push(error.message));
  return { device, uncaptured };
}
