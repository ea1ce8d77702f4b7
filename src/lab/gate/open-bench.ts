import { openGpu } from '../../engine/gpu/device.ts';
import { PipelineCache } from '../../engine/gpu/pipelines.ts';
import { nodePlatform } from '../../platform/node.ts';
import { openKnownKernel } from './known-kernel.ts';
import type { Bench } from './references.ts';

/**
 * A device of this process alone, warm.
 * @param adapter a part of its name
 */
export async function openBench(adapter: string | undefined): Promise<Bench> {
  const platform = nodePlatform();
  const gpu = await openGpu(
    await platform.requestAdapter(adapter === undefined ? {} : { adapter }),
    platform.backend,
  );
  // Its compilation starts the driver's compiler, so that the first candidate does not wait for that.
  const known = await openKnownKernel(gpu);
  return { gpu, pipelines: new PipelineCache(gpu.device, await platform.wgsl()), known };
}
