/** File access while loading, and the device when files fail. */
import { afterEach, describe, expect, it } from 'vitest';
import { loadEngine, type Platform } from '../../src/engine/index.ts';
import { testPlatform } from '../support/test-platform.ts';
import { filesOf, memorySource, openSource } from '../support/byte-source.ts';
import { type LocalServer, rangeOf, serve } from '../support/local-server.ts';
import { loadFromMemory, memoryPlatform, tinyModel } from '../support/tiny-model.ts';

const bytes = tinyModel({
  architecture: 'llama',
  type: 'F16',
  vocab: 4096,
  biases: true,
  ropeFactors: Array.from({ length: 32 }, () => 1.5),
});

/** The system's adapters; requested devices are recorded. */
const adapters =
  (onDevice: (device: GPUDevice) => void): Platform['requestAdapter'] =>
  async (options) => {
    const adapter = await testPlatform().requestAdapter(options);
    const request = adapter.requestDevice.bind(adapter);
    adapter.requestDevice = async (descriptor) => {
      const device = await request(descriptor);
      onDevice(device);
      return device;
    };
    return adapter;
  };

describe('a model on a web server', () => {
  let server: LocalServer | undefined;
  afterEach(() => server?.close());

  it.each([undefined, 'Q8_0'] as const)(
    'is downloaded once, including its digest (quantized to %s)',
    async (quantize) => {
      const requestedRanges: { first: number; last: number }[] = [];
      server = await serve((request, response) => {
        const range = rangeOf(request.headers.range, bytes.length);
        if (request.url !== '/m.gguf' || !range) {
          response.writeHead(404).end();
          return;
        }
        requestedRanges.push(range);
        const { first, last } = range;
        response.writeHead(206, { 'content-range': `bytes ${first}-${last}/${bytes.length}` });
        response.end(bytes.subarray(first, last + 1));
      });
      const options = { context: 64, parallel: 1, ...(quantize && { quantize }) };
      const engine = await loadEngine(testPlatform(), { ...options, model: `${server.url}/m.gguf` });
      const local = await loadFromMemory(bytes, options);
      expect(engine.model.digest).toBe(local.model.digest);
      await Promise.all([engine.close(), local.close()]);

      const tensors = [...(await openSource(memorySource(bytes))).tensors.values()];
      const header = Math.min(...tensors.map(({ offset }) => offset));
      const reads = requestedRanges.filter(({ first }) => first >= header);
      for (const { name, offset, sizeBytes } of tensors) {
        const end = offset + sizeBytes;
        const overlaps = reads.map(({ first, last }) => Math.min(last + 1, end) - Math.max(first, offset));
        const got = overlaps.reduce((sum, overlap) => sum + Math.max(0, overlap), 0);
        expect(got, name).toBe(sizeBytes);
      }
    },
  );
});

describe('a file that fails after the model is on the device', () => {
  it('leaves no device and no file open', async () => {
    const devices: GPUDevice[] = [];
    const source = memorySource(bytes);
    let loaded = false;
    const platform: Platform = {
      ...memoryPlatform(bytes),
      modelFiles: async () =>
        filesOf(
          {
            'm.gguf': {
              name: 'm.gguf',
              sizeBytes: bytes.length,
              close: () => source.close(),
              read: async (offset, length, into) => {
                if (loaded) throw new Error('the disk is gone');
                return source.read(offset, length, into);
              },
            },
          },
          'm.gguf',
        ),
      requestAdapter: adapters((device) => devices.push(device)),
    };
    const loading = loadEngine(platform, {
      model: 'm.gguf',
      context: 64,
      onProgress: ({ stage, done, total }) => {
        if (stage === 'warm-up' && done === total) loaded = true;
      },
    });
    await expect(loading).rejects.toThrow('the disk is gone');
    expect(devices).toHaveLength(1);
    expect(await devices[0]?.lost).toMatchObject({ reason: 'destroyed' });
    expect(source.closed).toBe(true);
  });

  it('a device that rejects the steps of a model causes a load error, where zeros would pass for tokens', async () => {
    const platform: Platform = {
      ...memoryPlatform(tinyModel({ architecture: 'llama' })),
      requestAdapter: adapters((device) => {
        const begin = device.createCommandEncoder.bind(device);
        device.createCommandEncoder = (...args) => {
          const encoder = begin(...args);
          const pass = encoder.beginComputePass.bind(encoder);
          encoder.beginComputePass = (...of) => {
            const begun = pass(...of);
            const dispatch = begun.dispatchWorkgroups.bind(begun);
            // Like a grid that exceeds the device's limits.
            begun.dispatchWorkgroups = (x) => dispatch(x + 65_536);
            return begun;
          };
          return encoder;
        };
      }),
    };
    await expect(
      loadEngine(platform, { model: 'memory.gguf', context: 64, exact: true }),
    ).rejects.toMatchObject({
      code: 'unsupported_model',
      message: expect.stringMatching(/the device refuses a step: .*65535/s),
    });
  });

  it('a device lost during warm-up fails only that load', async () => {
    const devices: GPUDevice[] = [];
    const platform: Platform = {
      ...memoryPlatform(tinyModel({ architecture: 'llama' })),
      requestAdapter: adapters((device) => devices.push(device)),
    };
    const unhandled: unknown[] = [];
    const heard = (reason: unknown) => unhandled.push(reason);
    process.on('unhandledRejection', heard);
    try {
      for (const when of ['before a step', 'behind it']) {
        const loading = loadEngine(platform, {
          model: 'memory.gguf',
          context: 64,
          exact: true,
          onProgress: ({ stage }) => {
            if (stage !== 'warm-up') return;
            if (when === 'before a step') devices.at(-1)?.destroy();
            else queueMicrotask(() => devices.at(-1)?.destroy());
          },
        });
        await expect(loading, when).rejects.toThrow();
      }
      await new Promise((resolve) => setTimeout(resolve, 50));
    } finally {
      process.off('unhandledRejection', heard);
    }
    expect(unhandled).toEqual([]);
  });
});
