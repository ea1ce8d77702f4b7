/** The lab's bench on models with other layers than attention and feed-forward. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { openLab } from '../../src/lab/index.ts';
import { testPlatform } from '../support/test-platform.ts';
import { tinyGemma4 } from '../support/tiny-gemma4.ts';
import { loadFromMemory, type TinyModel, tinyModel } from '../support/tiny-model.ts';
import { everyNth } from '../support/tier.ts';

const models: Readonly<Record<string, TinyModel | Uint8Array>> = {
  'gemma4, whose host must know each token before the next step': tinyGemma4({ type: 'Q8_0' }),
  'qwen3.5, with a state': { architecture: 'qwen35', type: 'Q8_0', headDim: 32, rotary: 16 },
  'qwen3moe, experts': { architecture: 'qwen3moe', type: 'Q8_0', headDim: 32 },
};

it.each(everyNth(Object.entries(models), 3))('%s', async (_, model) => {
  const bytes = model instanceof Uint8Array ? model : tinyModel(model);
  const engine = await loadFromMemory(bytes, { parallel: 2, exact: true });
  const dataDir = await mkdtemp(join(tmpdir(), 'lab-bench-'));
  const lab = await openLab({
    engine,
    wgsl: await testPlatform().wgsl(),
    dataDir,
    childPath: 'no-child.js',
    adapter: undefined,
    dawn: 'any',
    toggles: [],
    trustedKeys: [],
    allowUnverified: false,
    onWarning: () => {},
  });
  const { signal } = new AbortController();
  const request = { prompt_tokens: 24, new_tokens: 6, rounds: 3, contexts: [24] };
  const result = await lab.bench(request, signal);
  expect(result.baseline.decode_tps).toBeGreaterThan(0);
  expect(result.verdict).not.toBe('suspect');
  const timed = new Set(result.components.map(({ id }) => id));
  for (const { op, component } of (await lab.graph()).nodes) expect(timed, op).toContain(component);
  const parity = await lab.runParity(signal);
  expect(parity).toMatchObject({ ok: true, logits: { top1_agreement: 1 } });
  await lab.close();
  await engine.close();
  await rm(dataDir, { recursive: true });
});
