import type { AdapterCaps } from '../../../kernels/define.ts';
import type { AdapterFacts } from '../types.ts';

/** A device with what the engine asked of it, and news of its loss. */
export interface Gpu {
  readonly device: GPUDevice;
  readonly caps: AdapterCaps;
  readonly facts: AdapterFacts;
  /** Architecture and device as the driver names them. */
  readonly model: string;
  readonly timestamps: boolean;
  /** Resolves with the reason when the device is gone; never rejects. */
  readonly lost: Promise<string>;
}

/** Dawn's name of what the WebGPU draft calls subgroup matrices. */
const matrixFeature = 'chromium-experimental-subgroup-matrix' as GPUFeatureName;
const wantedFeatures = ['shader-f16', 'subgroups', 'timestamp-query', matrixFeature] as const;
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
    matrix: device.features.has(matrixFeature) && multipliesHalves(info),
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
    model: `${info.architecture} ${info.device}`,
    timestamps: device.features.has('timestamp-query'),
    lost: device.lost.then((lost) => `${lost.reason}: ${lost.message}`),
  };
}

interface MatrixConfig {
  readonly componentType: string;
  readonly resultComponentType: string;
  readonly M: number;
  readonly N: number;
  readonly K: number;
}

/** The adapter multiplies f16 matrices of 16 x 16 x 16 and sums in f32. */
function multipliesHalves(info: GPUAdapterInfo): boolean {
  const { subgroupMatrixConfigs = [] } = info as GPUAdapterInfo & {
    subgroupMatrixConfigs?: readonly MatrixConfig[];
  };
  return subgroupMatrixConfigs.some(
    ({ componentType, resultComponentType, M, N, K }) =>
      componentType === 'f16' && resultComponentType === 'f32' && M === 16 && N === 16 && K === 16,
  );
}
