import { expect, test } from 'vitest';
import type { CliContext } from '../../src/cli/cli-context.ts';
import { ModelLoader } from '../../src/cli/model-loader.ts';
import { ScriptedEngine } from '../support/scripted-engine.ts';

/** A loader whose engines close when they are released. */
function createLoader() {
  const released = Promise.withResolvers<void>();
  const cli = {
    stderr: { write: () => true, isTTY: false },
    loadEngine: () => {
      const engine = new ScriptedEngine();
      engine.close = () => released.promise;
      return Promise.resolve(engine);
    },
    openGrammars: () => Promise.resolve(undefined),
    openLab: () => Promise.resolve(undefined),
  } as unknown as CliContext;
  const loader = new ModelLoader({
    options: {},
    dataDir: '/d',
    cli,
    onNotice: () => undefined,
    stopping: new AbortController().signal,
    observeLab: (lab) => lab,
    history: undefined as never,
    observeRequests: undefined as never,
    draft: { location: '/draft', of: '/a' },
  });
  return { loader, release: () => released.resolve() };
}
const params = { keepsContext: false, openPlaces: 1 };

test('a model that is closed twice is closed for both when its engine is', async () => {
  const { loader, release } = createLoader();
  const { close } = await loader.load('/a', { ...params, isMain: true });
  let closed = 0;
  const both = [close, () => loader.close()].map(async (end) => {
    await end?.();
    closed += 1;
  });
  await new Promise((resolve) => setImmediate(resolve));
  expect(closed).toBe(0);
  expect(loader.roleOf('/a')).toBe('main');
  release();
  await Promise.all(both);
  expect(closed).toBe(2);
  expect(loader.roleOf('/a')).toBeUndefined();
});

test('the loaded models have roles, and the draft model of one has too', async () => {
  const { loader, release } = createLoader();
  await loader.loadEmbeddingModel('/e');
  await loader.load('/a', { ...params, isMain: true });
  await loader.load('/b', { ...params, isMain: false });
  const roles = ['/e', '/a', '/b', '/draft', '/c'].map((location) => loader.roleOf(location));
  expect(roles).toEqual(['embedding', 'main', 'further', 'draft', undefined]);
  release();
  await loader.close();
});
