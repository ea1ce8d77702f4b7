/** A model for embeddings beside one that generates: two engines on one adapter, each with a device of its own. */
import { describe, expect, it } from 'vitest';
import { greedySampling, loadEngine, type ResidentEngine } from '../../src/engine/index.ts';
import { tinyEncoder } from '../support/tiny-encoder.ts';
import { loadFromMemory, memoryPlatform, tinyModel } from '../support/tiny-model.ts';

const someIds = (length: number) => Array.from({ length }, (_, i) => (i * 37 + 5) % 250);
const chatModel = tinyModel({ architecture: 'llama', context: 512 });

async function generate(engine: ResidentEngine): Promise<number[]> {
  const ids: number[] = [];
  const request = { prompt: someIds(30), maxTokens: 60, sampling: greedySampling, stop: [], ignoreEnd: true };
  for await (const event of engine.generate(request)) if (event.type === 'text') ids.push(...event.ids);
  return ids;
}

describe('two models', () => {
  it('give the same side by side as alone, also after both lose their device', async () => {
    const notices: string[] = [];
    const onNotice = (notice: string) => notices.push(notice);
    const embedder = await loadFromMemory(tinyEncoder({ architecture: 'bert' }), {
      embedsOnly: true,
      onNotice,
    });
    const engine = await loadFromMemory(chatModel, {
      onNotice,
      reservedBytes: embedder.stats().memoryBytes,
    });
    try {
      const inputs = [1, 8, 40, 64].map(someIds);
      const [ids, vectors] = [await generate(engine), await embedder.embed({ inputs })];
      const sideBySide = () => Promise.all([generate(engine), embedder.embed({ inputs })]);
      expect(await sideBySide()).toEqual([ids, vectors]);
      for (const one of [engine, embedder]) one.runner.gpu.device.destroy();
      await expect
        .poll(() => notices.filter((notice) => notice === 'the model is loaded again'), { timeout: 20_000 })
        .toHaveLength(2);
      expect(await sideBySide()).toEqual([ids, vectors]);
      embedder.runner.gpu.device.destroy();
      expect(await generate(engine)).toEqual(ids);
      await expect
        .poll(() => notices.filter((notice) => notice === 'the model is loaded again'), { timeout: 20_000 })
        .toHaveLength(3);
      expect(await sideBySide()).toEqual([ids, vectors]);
      expect([engine.stats().deviceLosses, embedder.stats().deviceLosses]).toEqual([1, 2]);
    } finally {
      await Promise.all([engine.close(), embedder.close()]);
    }
  });

  it('share the memory: the second one gets what the first one leaves', async () => {
    const whole = await loadFromMemory(chatModel, { parallel: 4 });
    const { memoryBytes } = whole.stats();
    const { capacity } = whole.runner.memory;
    const { software } = whole.adapter;
    await whole.close();
    expect(memoryBytes).toBeGreaterThan(chatModel.length);
    // Only the memory of a processor is known; a GPU refuses what does not fit.
    if (!software) return;
    const load = (reservedBytes: number) =>
      loadEngine(
        { ...memoryPlatform(chatModel), memoryBytes: () => memoryBytes + (1 << 16) },
        { model: 'memory.gguf', parallel: 4, reservedBytes },
      );
    const pagesWith = async (reservedBytes: number) => {
      const engine = await load(reservedBytes);
      const { pages } = engine.runner.memory.capacity;
      await engine.close();
      return pages;
    };
    expect(await pagesWith(0)).toBe(capacity.pages);
    expect(await pagesWith(1 << 17)).toBeLessThan(capacity.pages);
    await expect(load(memoryBytes)).rejects.toMatchObject({ code: 'model_too_large' });
  });

  it('for embeddings must not generate', async () => {
    await expect(loadFromMemory(chatModel, { embedsOnly: true })).rejects.toMatchObject({
      code: 'invalid_request',
      message: expect.stringContaining('generates text; name a model that only makes embeddings'),
    });
  });
});
