import { type AdapterCaps, subgroupSizes } from '../../../kernels/define.ts';
import type { AdapterFacts } from '../types.ts';
import type { DawnFeature } from './dawn-features.ts';

/** A WebGPU device, its capabilities, and notification of its loss. */
export interface Gpu {
  readonly device: GPUDevice;
  readonly caps: AdapterCaps;
  readonly facts: AdapterFacts;
  /** Architecture and device name reported by the driver, and features of Dawn: what measurements depend on. */
  readonly model: string;
  readonly timestamps: boolean;
  /** Resolves with the reason when the device is lost; never rejects. */
  readonly lost: Promise<string>;
}

/** Dawn's name for subgroup matrices of the WebGPU draft. */
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

/**
 * Requests a device with the adapter's own limits; Dawn grants only the minimum limits otherwise.
 * @param dawnFeatures features of Dawn that the adapter has in addition to the default ones
 */
export async function openGpu(
  adapter: GPUAdapter,
  backend: string,
  dawnFeatures: readonly DawnFeature[] = [],
): Promise<Gpu> {
  const requiredFeatures = wantedFeatures.filter((feature) => adapter.features.has(feature));
  const requiredLimits = Object.fromEntries(wantedLimits.map((limit) => [limit, adapter.limits[limit]]));
  const device = await adapter.requestDevice({ label: 'lathe', requiredFeatures, requiredLimits });
  const info = adapter.info;
  const { subgroupMinSize, subgroupMaxSize } = info;
  const hasFixedSize = subgroupMinSize === subgroupMaxSize && device.features.has('subgroups');
  const software = info.isFallbackAdapter;
  const caps: AdapterCaps = {
    subgroupSize: hasFixedSize ? subgroupSizes.find((size) => size === subgroupMinSize) : undefined,
    f16: device.features.has('shader-f16'),
    software,
    matrix: device.features.has(matrixFeature) && supportsF16Matrices(info),
    hasSmallWorkgroupMemory: device.limits.maxComputeWorkgroupStorageSize < 32_768,
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
    model: [info.architecture, info.device, ...dawnFeatures].join(' '),
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

/** True when the adapter multiplies 16 x 16 x 16 matrices of f16 with f32 accumulation. */
function supportsF16Matrices(info: GPUAdapterInfo): boolean {
  const { subgroupMatrixConfigs = [] } = info as GPUAdapterInfo & {
    subgroupMatrixConfigs?: readonly MatrixConfig[];
  };
  return subgroupMatrixConfigs.some(
    ({ componentType, resultComponentType, M, N, K }) =>
      componentType === 'f16' && resultComponentType === 'f32' && M === 16 && N === 16 && K === 16,
  );
}
