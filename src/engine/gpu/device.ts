import type { AdapterCaps } from '../../../kernels/define.ts';
import type { AdapterFacts } from '../types.ts';

/** A device with what the engine asked of it, and news of its loss. */
export interface Gpu {
  readonly device: GPUDevice;
  readonly caps: AdapterCaps;
  readonly facts: AdapterFacts;
  readonly timestamps: boolean;
  /** Resolves with the reason when the device is gone; never rejects. */
  readonly lost: Promise<string>;
}

const wantedFeatures = ['shader-f16', 'subgroups', 'timestamp-query'] as const;
const wantedLimits = [
  'maxStorageBufferBindingSize',
  'maxBufferSize',
  'maxStorageBuffersPerShaderStage',
  'maxComputeInvocationsPerWorkgroup',
  'maxComputeWorkgroupSizeX',
  'maxComputeWorkgroupStorageSize',
] as const;

/** Dawn gives the least limits unless the adapter's own are asked for by name. */
export async function openGpu(adapter: GPUAdapter, backend: string): Promise<Gpu> {
  const requiredFeatures = wantedFeatures.filter((feature) => adapter.features.has(feature));
  const requiredLimits = Object.fromEntries(wantedLimits.map((limit) => [limit, adapter.limits[limit]]));
  const device = await adapter.requestDevice({ label: 'lathe', requiredFeatures, requiredLimits });
  const info = adapter.info;
  const fixed = info.subgroupMinSize === info.subgroupMaxSize && device.features.has('subgroups');
  const software = info.isFallbackAdapter;
  const caps: AdapterCaps = {
    subgroupSize: fixed ? info.subgroupMinSize : undefined,
    f16: device.features.has('shader-f16'),
    software,
  };
  const facts: AdapterFacts = {
    backend,
    vendor: info.vendor,
    description: info.description || info.device || info.architecture,
    software,
    features: [...device.features].sort(),
  };
  return {
    device,
    caps,
    facts,
    timestamps: device.features.has('timestamp-query'),
    lost: device.lost.then((lost) => `${lost.reason}: ${lost.message}`),
  };
}
