import type { Platform } from '../../src/engine/platform.ts';

/** The platform, with devices whose buffer memory is limited and not reported. */
export const withDeviceMemory = (platform: Platform, maxBytes: number): Platform => ({
  ...platform,
  memoryBytes: () => undefined,
  async requestAdapter(options) {
    const adapter = await platform.requestAdapter(options);
    const request = adapter.requestDevice.bind(adapter);
    adapter.requestDevice = async (descriptor) => {
      const device = await request(descriptor);
      limit(device, maxBytes);
      return device;
    };
    return adapter;
  },
});

/** Fails like a full device: an error for the surrounding scope, and an invalid buffer. */
function limit(device: GPUDevice, maxBytes: number): void {
  const scopes: { filter: GPUErrorFilter; full: boolean }[] = [];
  const create = device.createBuffer.bind(device);
  const push = device.pushErrorScope.bind(device);
  const pop = device.popErrorScope.bind(device);
  let used = 0;
  device.createBuffer = (descriptor) => {
    const scope = scopes.findLast(({ filter }) => filter === 'out-of-memory');
    if (used + descriptor.size > maxBytes && scope) {
      scope.full = true;
      return create({ ...descriptor, size: 16 });
    }
    used += descriptor.size;
    return create(descriptor);
  };
  device.pushErrorScope = (filter) => {
    scopes.push({ filter, full: false });
    push(filter);
  };
  device.popErrorScope = async () => {
    const scope = scopes.pop();
    const error = await pop();
    return scope?.full ? Object.assign(new Error(), { message: 'the device is full' }) : error;
  };
}

/** The platform, with devices that bind at most this many bytes of storage at once. */
export const withBindings = (platform: Platform, maxBytes: number): Platform => ({
  ...platform,
  async requestAdapter(options) {
    const adapter = await platform.requestAdapter(options);
    const request = adapter.requestDevice.bind(adapter);
    adapter.requestDevice = async (descriptor) => {
      const device = await request(descriptor);
      const { limits } = device;
      const get = (_: GPUSupportedLimits, name: keyof GPUSupportedLimits) =>
        name === 'maxStorageBufferBindingSize' ? maxBytes : limits[name];
      Object.defineProperty(device, 'limits', { value: new Proxy(limits, { get }) });
      return device;
    };
    return adapter;
  },
});
