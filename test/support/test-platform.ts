/** The platform of the tests that use the adapter. */
import type { Platform, Store } from '../../src/engine/platform.ts';
import { nodePlatform } from '../../src/platform/node.ts';

/** The platform, with a software adapter that looks like hardware, so that it gets the kernels for GPUs. */
export const asHardware = (platform: Platform): Platform => ({
  ...platform,
  requestAdapter: async (options) => {
    const adapter = await platform.requestAdapter(options);
    return new Proxy(adapter, {
      get(target, key) {
        const value: unknown = Reflect.get(target, key, target);
        if (key === 'info') return new Proxy(target.info, { get: hardwareInfo });
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
  },
});
const hardwareInfo = (info: GPUAdapterInfo, key: string | symbol): unknown =>
  key === 'isFallbackAdapter' ? false : Reflect.get(info, key, info);

const kinds = ['adapter', 'hardware'] as const;
const kind = process.env['LATHE_TEST_PLATFORM'] ?? 'adapter';
if (!kinds.some((one) => one === kind))
  throw new Error(`LATHE_TEST_PLATFORM is '${kind}'; it must be ${kinds.join(' or ')}`);

/**
 * The node platform. `LATHE_TEST_PLATFORM=hardware` runs tests on the kernels for GPUs where there is only a software
 * adapter.
 * @param store store for measurements; without it nothing is measured
 */
export const testPlatform = (store?: Store): Platform =>
  kind === 'hardware' ? asHardware(nodePlatform(store)) : nodePlatform(store);
