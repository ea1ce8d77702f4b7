/** Embeddings of models that generate, against the CPU oracle and beside texts that they generate. */
import { describe, expect, it } from 'vitest';
import { greedySampling, type GenerateRequest, type ResidentEngine } from '../../src/engine/index.ts';
import { memorySource, openSource } from '../support/byte-source.ts';
import { ReferenceModel } from '../support/reference-model.ts';
import { cosines } from '../support/rows.ts';
import { selectCases } from '../support/tier.ts';
import { loadFromMemory, type TinyModel, tinyModel } from '../support/tiny-model.ts';

const someIds = (length: number, seed = 0) =>
  Array.from({ length }, (_, i) => (i * 37 + seed * 101 + 5) % 250);

const unit = (values: ArrayLike<number>): Float32Array => {
  const length = Math.hypot(...Array.from(values));
  return Float32Array.from(values, (value) => value / length);
};

async function generate(engine: ResidentEngine, request: Partial<GenerateRequest>): Promise<number[]> {
  const ids: number[] = [];
  const whole = { prompt: someIds(30), maxTokens: 40, sampling: greedySampling, stop: [], ignoreEnd: true };
  for await (const event of engine.generate({ ...whole, ...request })) {
    if (event.type === 'text') ids.push(...event.ids);
  }
  return ids;
}

const models: TinyModel[] = [
  { architecture: 'llama', untied: true },
  { architecture: 'qwen3', type: 'Q8_0' },
  { architecture: 'lfm2', layers: 4 },
  { architecture: 'gemma3', window: 20 },
  { architecture: 'granite' },
  { architecture: 'gpt-oss', window: 20 },
  { architecture: 'qwen3moe', type: 'Q8_0' },
  { architecture: 'qwen35', layers: 4 },
];

describe.each(selectCases(models, ({ architecture }) => ['qwen3', 'lfm2'].includes(architecture)))(
  '%o',
  (model) => {
    it('gives the state of the last token, beside texts that it generates as without', async () => {
      const bytes = tinyModel({ context: 256, ...model });
      const reference = await ReferenceModel.load(await openSource(memorySource(bytes)), 'F16');
      const engine = await loadFromMemory(bytes, { parallel: 4, exact: true });
      try {
        const width = engine.graph.shape.width;
        expect(engine.model).toMatchObject({
          kind: 'generate',
          embeddingDimensions: width,
          pooling: 'last',
        });
        const requests = [
          {},
          { prompt: someIds(7, 3), sampling: { ...greedySampling, temperature: 1, seed: 5 } },
        ];
        const alone: number[][] = [];
        for (const request of requests) alone.push(await generate(engine, request));
        // A chunk of a prompt has 128 tokens on a software adapter: the longest text takes two.
        const inputs = [1, 8, 9, 31, 33, 64, 200].map((length, n) => someIds(length, n));
        const [{ embeddings, promptTokens }, ...answers] = await Promise.all([
          engine.embed({ inputs }),
          ...requests.map((request) => generate(engine, request)),
        ]);
        expect(answers).toEqual(alone);
        expect(promptTokens).toBe(inputs.flat().length);
        const expected = inputs.map((ids) => {
          const text = reference.fork();
          text.forward(ids);
          return unit(text.hiddenState);
        });
        expect(Math.min(...cosines(embeddings, expected))).toBeGreaterThan(0.9999);
        const alike = cosines(embeddings.slice(1), embeddings.slice(0, -1));
        expect(Math.max(...alike), 'texts differ').toBeLessThan(0.9999);
        // The cache of prefixes changes nothing.
        const again = await engine.embed({ inputs: inputs.slice(-2) });
        expect(Math.min(...cosines(again.embeddings, embeddings.slice(-2)))).toBeGreaterThan(0.999999);
        const { completions, embeddings: embedded, running, queued } = engine.stats();
        expect({ completions, embedded, running, queued }).toEqual({
          completions: 4,
          embedded: inputs.length + 2,
          running: 0,
          queued: 0,
        });
      } finally {
        await engine.close();
      }
    });
  },
);

describe('a model that generates', () => {
  const bytes = tinyModel({ architecture: 'llama', context: 128 });

  it('refuses texts that it cannot embed, and more requests than its queue holds', async () => {
    const engine = await loadFromMemory(bytes, { parallel: 2, queue: 1 });
    try {
      const long = engine.embed({ inputs: [someIds(129), someIds(4)] });
      await expect(long).rejects.toMatchObject({
        code: 'context_length_exceeded',
        message: expect.stringContaining('input 0 has 129'),
      });
      await expect(engine.embed({ inputs: [[]], dimensions: 1e6 })).rejects.toMatchObject({
        code: 'invalid_request',
        message: expect.stringMatching(/input 0 has no tokens; dimensions must be/),
      });
      const { embeddings } = await engine.embed({ inputs: [someIds(128)], dimensions: 5 });
      expect(embeddings[0]).toHaveLength(5);
      const requests = [1, 2, 3].map((n) => engine.embed({ inputs: [someIds(60, n)] }));
      await expect(engine.embed({ inputs: [[1]] })).rejects.toMatchObject({ code: 'queue_full' });
      expect(await Promise.all(requests)).toHaveLength(3);
    } finally {
      await engine.close();
    }
  });

  it('whose device is lost fails its requests, and then gives the same vectors', async () => {
    const notices: string[] = [];
    const engine = await loadFromMemory(bytes, { onNotice: (notice) => notices.push(notice) });
    const inputs = [someIds(30)];
    const expected = await engine.embed({ inputs });
    const running = engine.embed({ inputs: Array.from({ length: 200 }, (_, n) => someIds(64, n)) });
    const failed = expect(running).rejects.toMatchObject({ code: 'device_lost' });
    engine.runner.gpu.device.destroy();
    await failed;
    await expect(engine.embed({ inputs })).rejects.toMatchObject({ code: 'device_lost' });
    await expect.poll(() => notices.at(-1)).toBe('the model is loaded again');
    expect(await engine.embed({ inputs })).toEqual(expected);
    const last = engine.embed({ inputs: Array.from({ length: 200 }, (_, n) => someIds(64, n)) });
    const refused = expect(last).rejects.toMatchObject({ code: 'shutting_down' });
    await engine.close();
    await refused;
  });

  it('whose values overflow gives an error instead of NaN', async () => {
    const engine = await loadFromMemory(bytes);
    const submit = engine.runner.submit.bind(engine.runner);
    engine.runner.submit = async (step, plan) => {
      const { readsHiddenStates, dims } = step;
      const { samples } = dims;
      const words = await submit(step, plan);
      return readsHiddenStates ? words.fill(0x7fc00000, samples) : words;
    };
    await expect(engine.embed({ inputs: [[1]] })).rejects.toMatchObject({ code: 'broken_model' });
    await engine.close();
  });
});
