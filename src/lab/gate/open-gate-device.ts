import { openGpu } from '../../engine/gpu/device.ts';
import { PipelineCache } from '../../engine/gpu/pipelines.ts';
import { nodePlatform } from '../../platform/node.ts';
import { openCalibrationKernel } from './calibration-kernel.ts';
import type { GateDevice } from './references.ts';

/**
 * Opens and warms up the GPU device of the child process.
 * @param adapter part of the adapter's name
 */
export async function openGateDevice(adapter: string | undefined): Promise<GateDevice> {
  const platform = nodePlatform();
  const gpu = await openGpu(
    await platform.requestAdapter(adapter === undefined ? {} : { adapter }),
    platform.backend,
  );
  // Compiling this kernel starts the driver's compiler, so the first candidate does not wait for it.
  const calibration = await openCalibrationKernel(gpu);
  const wgsl = await platform.wgsl();
  return { gpu, pipelines: new PipelineCache(gpu.device, wgsl), calibration, wgsl };
}
