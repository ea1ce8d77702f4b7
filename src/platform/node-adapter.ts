import { EngineError } from '../engine/index.ts';
import { errorMessage } from '../util/error-message.ts';
import { pauseBetweenPolls } from './node-polling.ts';

/**
 * Features of Dawn that are enabled: experimental features of adapters, f16 on NVIDIA, which Dawn withholds by default, and
 * Vulkan's memory model, which subgroup matrices need. Other adapters ignore the last two.
 */
const enabledDawnFeatures = ['allow_unsafe_apis', 'vulkan_enable_f16_on_nvidia', 'use_vulkan_memory_model'];

/**
 * Options of Dawn's instance. By default Dawn rounds timestamps to 100 us; the tracer needs exact ones.
 * @param features further features of Dawn to enable
 */
export const dawnOptions = (features: readonly string[] = []): string[] => [
  'disable-dawn-features=timestamp_quantization',
  `enable-dawn-features=${[...enabledDawnFeatures, ...features].join(',')}`,
];

/**
 * One Dawn instance per requested adapter name and features, kept until the process ends. Dawn crashes if an instance is garbage
 * collected while one of its devices lives, and it does not report when the last device is gone.
 */
const instances = new Map<string, Promise<GPU>>();
/** Instances with a hanging device, kept for the same reason. */
const abandoned: Promise<GPU>[] = [];

export interface AdapterRequest {
  readonly adapter?: string;
  readonly fresh?: boolean;
  readonly features?: readonly string[];
}

/**
 * Opens an adapter through Dawn's Node binding. The binding is loaded on demand, because a host without a model does
 * not need it.
 * @param options `adapter`: part of the adapter's name, case-insensitive; `fresh`: use a new instance, because a device
 * of an earlier one hangs; `features`: features of Dawn to enable in addition to the default ones
 * @throws EngineError `no_adapter`, with the available adapters and what to install
 */
export const requestAdapter = async (options: AdapterRequest): Promise<GPUAdapter> => {
  if (options.fresh) {
    abandoned.push(...instances.values());
    instances.clear();
  }
  const found = await findAdapter(options);
  if (found.info.isFallbackAdapter) pauseBetweenPolls();
  return found;
};

const findAdapter = async ({ adapter, features = [] }: AdapterRequest): Promise<GPUAdapter> => {
  if (adapter === undefined) {
    const found = await (await instance('', features)).requestAdapter({
      powerPreference: 'high-performance',
    });
    if (found) return found;
    throw new EngineError('no_adapter', `no WebGPU adapter found. ${await installAdvice()}`);
  }
  const names = await adapterNames();
  const name = names.find((candidate) => candidate.toLowerCase().includes(adapter.toLowerCase()));
  if (name === undefined) {
    const choice =
      names.length > 0
        ? `the adapters are: ${names.join('; ')}`
        : `there are no adapters. ${await installAdvice()}`;
    throw new EngineError('no_adapter', `no adapter has '${adapter}' in its name; ${choice}`);
  }
  const found = await (await instance(name, features)).requestAdapter();
  if (found) return found;
  throw new EngineError('no_adapter', `Dawn cannot use the adapter '${name}'. ${await installAdvice()}`);
};

const instance = (adapter: string, features: readonly string[]): Promise<GPU> => {
  const key = [adapter, ...features].join('\n');
  const existing = instances.get(key) ?? createInstance(adapter, features);
  instances.set(key, existing);
  return existing;
};

const createInstance = async (adapter: string, features: readonly string[]): Promise<GPU> => {
  const { create, globals } = await import('webgpu');
  Object.assign(globalThis, globals);
  return create([...dawnOptions(features), ...(adapter === '' ? [] : [`adapter=${adapter}`])]);
};

/** Lists adapter names. The binding lists them only in its error for an unknown name. */
const adapterNames = async (): Promise<string[]> => {
  const { create } = await import('webgpu');
  try {
    await create(['adapter=(none has this name)']).requestAdapter();
    return [];
  } catch (error) {
    const message = errorMessage(error);
    return Array.from(message.matchAll(/name: '(.*)'/g), ([, name]) => name ?? '');
  }
};

const installAdvice = async (): Promise<string> => {
  if (process.platform !== 'linux') return 'Update the graphics driver of this machine.';
  const unusable = await adapterNames();
  const old = unusable.length > 0 ? `Found, but too old or too limited: ${unusable.join('; ')}. ` : '';
  return (
    `${old}In lathe's repository \`npm run setup:vulkan\` (\`npm start\` does it too) installs a software Vulkan driver where there is no GPU. ` +
    'By hand on Debian or Ubuntu: `apt-get install libvulkan1 mesa-vulkan-drivers` (on Debian 12 with `-t bookworm-backports`, ' +
    "Mesa 22.3 is too old); with a GPU, the Vulkan part of its driver. '--adapter' picks one of several."
  );
};
