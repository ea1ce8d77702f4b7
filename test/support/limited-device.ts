import type { Platform } from '../../src/engine/platform.ts';

/** The platform, whose devices have only so much memory for buffers, and which tells nobody how much. */
export const withDeviceMemory = (platform: Platform, mostBytes: number): Platform => ({
  ...platform,
  memoryBytes: () => undefined,
  async requestAdapter(options) {
    const adapter = await platform.requestAdapter(options);
    const request = adapter.requestDevice.bind(adapter);
    adapter.requestDevice = async (descriptor) => {
      const device = await request(descriptor);
      limit(device, mostBytes);
      return device;
    };
    return adapter;
  },
});

/** Refuses as a full device does: an error for the scope around it, and a buffer that is good for nothing. */
function limit(device: GPUDevice, mostBytes: number): void {
  const scopes: { filter: GPUErrorFilter; full: boolean }[] = [];
  const create = device.createBuffer.bind(device);
  const push = device.pushErrorScope.bind(device);
  const pop = device.popErrorScope.bind(device);
  let used = 0;
  device.createBuffer = (descriptor) => {
    const scope = scopes.findLast(({ filter }) => filter === 'out-of-memory');
    if (used + descriptor.size > mostBytes && scope) {
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

/** The platform, whose devices bind so many bytes of storage at once. */
export const withBindings = (platform: Platform, mostBytes: number): Platform => ({
  ...platform,
  async requestAdapter(options) {
    const adapter = await platform.requestAdapter(options);
    const request = adapter.requestDevice.bind(adapter);
    adapter.requestDevice = async (descriptor) => {
      const device = await request(descriptor);
      const { limits } = device;
      const get = (_: GPUSupportedLimits, name: keyof GPUSupportedLimits) =>
        name === 'maxStorageBufferBindingSize' ? mostBytes : limits[name];
      Object.defineProperty(device, 'limits', { value: new Proxy(limits, { get }) });
      return device;
    };
    return adapter;
  },
});
