/** `GET /host/v1/models`: roles, what a request for another model does, and whether a model fits into memory. */
import { expect, onTestFinished, test } from 'vitest';
import { hostModelsRoute } from '../../src/planes/host/models.ts';
import { hostModels } from '../../src/planes/host/models-schema.ts';
import type { ModelRow } from '../../src/planes/model-store.ts';
import { Resident } from '../../src/planes/resident.ts';
import { type Swapping, swappingHost } from '../support/swapping-host.ts';

async function serve(options: Partial<Swapping>) {
  const host = await swappingHost({ models: { a: {}, b: {}, c: {} }, ...options });
  onTestFinished(() => host.close());
  const read = async () => hostModels.strict().parse(await (await host.get('/host/v1/models')).json());
  const load = (model: string) => host.post('/api/generate', { model, stream: false });
  return { read, load };
}

test('tells the roles of loaded models, and lists models that are not stored', async () => {
  const { read, load } = await serve({ resident: 3 });
  await load('b');
  const { loading, models } = await read();
  expect(loading).toBe('beside');
  expect(models.map(({ name, role }) => [name, role])).toEqual([
    ['a', 'resident'],
    ['b', 'beside'],
    ['lathe-tiny', null],
  ]);
  const [a, , tiny] = models;
  expect(a?.memory_bytes).toEqual(expect.any(Number));
  expect(a?.fit).toEqual({ verdict: 'loaded' });
  expect(tiny).toMatchObject({ kind: 'generate', parameters: expect.any(Number), removable: false });
  expect(tiny?.fit.verdict).toBe('unknown');
});

test.each([
  [{ swap: true, resident: 1 }, 'replace'],
  [{ swap: false, resident: 2 }, 'beside'],
  [{ swap: false, resident: 1 }, 'none'],
] as const)('tells what a request for another model does: %j', async (options, loading) => {
  const { read } = await serve(options);
  expect((await read()).loading).toBe(loading);
});

const row = (name: string, members: Partial<ModelRow>): ModelRow => ({
  name,
  location: `/${name}`,
  sizeBytes: 800,
  modifiedAt: new Date(0),
  digest: '',
  format: 'gguf',
  architecture: 'llama',
  parameters: 7,
  quantization: 'Q8_0',
  kind: 'generate',
  memory: { context: 4096, bytes: 900 },
  isStored: true,
  problem: undefined,
  ...members,
});

test('says whether a model fits into memory, and why not', async () => {
  const rows = [
    row('small', {}),
    row('long', { memory: { context: 4096, bytes: 1100 } }),
    row('large', { sizeBytes: 1200, memory: { context: 4096, bytes: 1500 } }),
    row('broken', { problem: 'the file ends early', memory: undefined, kind: undefined }),
    row('in-use', {}),
  ];
  const store = {
    list: () => Promise.resolve(rows),
    roleOf: (location: string) => (location === '/in-use' ? ('draft' as const) : undefined),
  };
  const read = async (memoryBytes: number | undefined) => {
    const route = hostModelsRoute(new Resident('none'), { store, memoryBytes: () => memoryBytes });
    return hostModels.parse(await (await route.handle({} as never)).json());
  };
  const { models, available_bytes: available } = await read(1000);
  expect(available).toBe(1000);
  expect(models.map(({ name, fit, removable }) => [name, fit.verdict, removable])).toEqual([
    ['small', 'fits', true],
    ['long', 'shorter_context', true],
    ['large', 'too_large', true],
    ['broken', 'unusable', true],
    ['in-use', 'fits', false],
  ]);
  expect(models[2]?.fit.reason).toBe(
    'It needs 1.5 KiB for a sequence of 4096 tokens, and 1000 B are available.',
  );
  expect(models[3]).toMatchObject({ kind: null, problem: 'the file ends early' });
  expect(models[4]?.role).toBe('draft');
  const unknown = await read(undefined);
  expect(unknown.available_bytes).toBeNull();
  expect(unknown.models.map(({ fit }) => fit.verdict)).toContain('unknown');
});
