import { beforeAll, describe, expect, it } from 'vitest';
import type { ModelFile } from '../../src/engine/formats/model-file.ts';
import type { Gpu } from '../../src/engine/gpu/device.ts';
import { DeviceMemoryError, prepareModel } from '../../src/engine/loading/prepare-model.ts';
import { pageBytes } from '../../src/engine/memory/memory.ts';
import { buildGraph } from '../../src/engine/models/registry.ts';
import { nodePlatform } from '../../src/platform/node.ts';
import { memorySource, openSource } from '../support/byte-source.ts';
import { nullDevice } from '../support/null-gpu.ts';
import { tinyModel } from '../support/tiny-model.ts';

let file: ModelFile;
beforeAll(async () => {
  file = await openSource(memorySource(tinyModel({ architecture: 'llama' })));
});

describe('allocations that a device rejects', () => {
  it('are collected for each allocation, without an uncaptured error of the device', async () => {
    const { device, uncaptured } = await nullDevice();
    const graph = await buildGraph(file);
    // Dawn's null device has 512 MiB: of these four buffers of 200 MiB it grants two.
    const cache = 800 * 2 ** 20;
    const pages = Math.floor(cache / pageBytes(graph.shape));
    const capacity = { context: 64, slots: 1, stepTokens: 16, pages };
    const gpu = { device, caps: { software: true }, facts: {} } as unknown as Gpu;
    const wgsl = await nodePlatform().wgsl();
    const refused = await prepareModel({ gpu, file, graph, capacity, wgsl, onProgress() {} }).catch(
      (error: unknown) => error,
    );
    expect(refused).toBeInstanceOf(DeviceMemoryError);
    const { missingBytes: missing, message, code } = refused as DeviceMemoryError;
    expect(code).toBe('model_too_large');
    expect(Math.round(missing / 2 ** 20)).toBe(400);
    expect(message).toMatch(
      /needs \d+ MiB of device memory, the device gives 4\d\d MiB: 400 MiB are missing/,
    );
    // Errors are reported when the device processes work.
    await device.queue.onSubmittedWorkDone();
    expect(uncaptured).toEqual([]);
  });
});
