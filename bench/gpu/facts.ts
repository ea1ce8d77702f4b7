/** `node bench/gpu/facts.ts`: prints what Dawn offers on this machine's adapter, as one JSON object. */
import { requestAdapter } from '../../src/platform/node-adapter.ts';
import { errorMessage } from '../../src/util/error-message.ts';

/** A `GPUSubgroupMatrixConfig`, which the standard does not have yet. */
interface MatrixConfig {
  readonly componentType: string;
  readonly resultComponentType: string;
  readonly M: number;
  readonly N: number;
  readonly K: number;
}

const [name] = process.argv.slice(2);
const adapter = await requestAdapter(name === undefined ? {} : { adapter: name });
const { info, limits } = adapter;
const { subgroupMatrixConfigs = [] } = info as GPUAdapterInfo & {
  readonly subgroupMatrixConfigs?: Iterable<MatrixConfig>;
};
/** Primitive members of a WebIDL object, which are on its prototype. */
const primitiveMembers = (object: object): Record<string, unknown> => {
  const names = Object.keys(Object.getOwnPropertyDescriptors(Object.getPrototypeOf(object)));
  const values = names.map((key) => [key, (object as Record<string, unknown>)[key]] as const);
  return Object.fromEntries(
    values.filter(([, value]) => ['string', 'number', 'boolean'].includes(typeof value)),
  );
};
const features = [...adapter.features].sort();
const matrixFeature = 'chromium-experimental-subgroup-matrix';
const facts = {
  info: primitiveMembers(info),
  features,
  limits: primitiveMembers(limits),
  wgslLanguageFeatures: [...((await openGpu())?.wgslLanguageFeatures ?? [])].sort(),
  subgroupMatrix: {
    offered: features.includes(matrixFeature),
    deviceOpens: await canOpenDevice(),
    configs: Array.from(subgroupMatrixConfigs, ({ componentType, resultComponentType, M, N, K }) => ({
      componentType,
      resultComponentType,
      M,
      N,
      K,
    })),
  },
};
console.log(JSON.stringify(facts));
process.exit();

async function openGpu(): Promise<GPU> {
  const { create } = await import('webgpu');
  return create([]);
}

/** Whether a device with subgroup matrices can be created; an advertised feature does not guarantee it. */
async function canOpenDevice(): Promise<boolean | string> {
  if (!features.includes(matrixFeature)) return false;
  try {
    const requiredFeatures = [matrixFeature as GPUFeatureName, 'subgroups' as GPUFeatureName];
    const device = await adapter.requestDevice({ requiredFeatures });
    device.destroy();
    return true;
  } catch (error) {
    return errorMessage(error);
  }
}
