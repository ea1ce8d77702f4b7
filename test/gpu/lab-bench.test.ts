/** The lab's bench on models with other layers than attention and feed-forward. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { WgslSources } from '../../kernels/assemble.ts';
import { type LabKernel, loadEngine, type ResidentEngine } from '../../src/engine/index.ts';
import { openLab } from '../../src/lab/index.ts';
import type { Lab } from '../../src/lab/types.ts';
import { stubKernel, unfusedKernels } from '../../src/lab/live/lab-kernel.ts';
import { fixtureModel } from '../support/shared.ts';
import { testPlatform } from '../support/test-platform.ts';
import { tinyGemma4 } from '../support/tiny-gemma4.ts';
import { loadFromMemory, type TinyModel, tinyModel } from '../support/tiny-model.ts';
import { selectCases } from '../support/tier.ts';

const models: Readonly<Record<string, TinyModel | Uint8Array>> = {
  'gemma4, whose host must know each token before the next step': tinyGemma4({ type: 'Q8_0' }),
  'qwen3.5, with a state': { architecture: 'qwen35', type: 'Q8_0', headDim: 32, rotary: 16 },
  'qwen3moe, experts': { architecture: 'qwen3moe', type: 'Q8_0', headDim: 32 },
};

async function labOf(engine: ResidentEngine): Promise<{ lab: Lab; close: () => Promise<void> }> {
  const dataDir = await mkdtemp(join(tmpdir(), 'lab-bench-'));
  const lab = await openLab({
    engine,
    wgsl: await testPlatform().wgsl(),
    dataDir,
    childPath: 'no-child.js',
    adapter: undefined,
    dawn: 'any',
    version: '0',
    toggles: [],
    trustedKeys: [],
    allowUnverified: false,
    onWarning: () => {},
  });
  return {
    lab,
    async close() {
      await lab.close();
      await engine.close();
      await rm(dataDir, { recursive: true });
    },
  };
}

it.each(selectCases(Object.entries(models), ([name]) => name.startsWith('qwen3moe')))(
  '%s',
  async (_, model) => {
    const bytes = model instanceof Uint8Array ? model : tinyModel(model);
    const { lab, close } = await labOf(await loadFromMemory(bytes, { parallel: 2, exact: true }));
    const { signal } = new AbortController();
    const request = { prompt_tokens: 24, new_tokens: 6, rounds: 3, contexts: [24] };
    const result = await lab.bench(request, signal);
    expect(result.baseline.decode_tps).toBeGreaterThan(0);
    expect(result.verdict).not.toBe('suspect');
    const timed = new Set(result.components.map(({ id }) => id));
    for (const { op, component } of (await lab.graph()).nodes) expect(timed, op).toContain(component);
    const parity = await lab.runParity(signal);
    expect(parity).toMatchObject({ ok: true, logits: { top1_agreement: 1 } });
    expect(result.decode[0]?.outputs.mean_kl).toBe(0);
    await close();
  },
);

describe('a kernel that is wrong only where it is timed is found', () => {
  let engine: ResidentEngine;
  let lab: Lab;
  let close: () => Promise<void>;
  let wgsl: WgslSources;
  let unfused: ReadonlyMap<string, LabKernel>;
  beforeAll(async () => {
    engine = await loadEngine(testPlatform(), { model: fixtureModel, parallel: 2 });
    ({ lab, close } = await labOf(engine));
    wgsl = await testPlatform().wgsl();
    unfused = unfusedKernels(wgsl);
  });
  afterEach(() => engine.bind([], unfused));
  afterAll(() => close());

  const bench = async (op: string, target: string, change: (source: string) => string) => {
    const stub = stubKernel(wgsl, op, 'q8_0');
    const code = change(stub.code);
    expect(code === stub.code).toBe(op === 'attention_decode');
    await engine.bind([{ target, kernel: { ...stub, code, digest: op } }], unfused);
    const request = { prompt_tokens: 48, new_tokens: 6, rounds: 3, contexts: [32, 128] };
    const { prefill, decode, warnings } = await lab.bench(request, new AbortController().signal);
    return { prefill, decode, warnings: warnings.filter((one) => one.startsWith('outputs')).join('\n') };
  };
  /** Returns at once where the condition is true, for a kernel whose tokens are `t`. */
  const skipping = (condition: string) => (source: string) =>
    source.replace(/(t >= step\.tokens)\)/, `$1 || (${condition}))`);

  it('but a correct one is not', async () => {
    const { prefill, decode, warnings } = await bench(
      'attention_decode',
      'layers.1.attn.attend',
      (source) => source,
    );
    expect(warnings).toBe('');
    for (const { outputs } of [prefill, ...decode]) expect(outputs.timed_same).toBe(outputs.timed_tokens);
    expect(decode.map(({ outputs }) => outputs.timed_tokens)).toEqual([18, 18]);
  });

  it('attention that writes nothing after the first of the timed tokens', async () => {
    const { decode, warnings } = await bench(
      'attention',
      'layers.1.attn.attend',
      skipping('token[t].y > 129u && step.tokens == 1u'),
    );
    expect(warnings).toMatch(/at context 128, the logits differ/);
    expect(decode[0]?.outputs.worst_kl).toBeLessThan(1e-4);
    expect(decode[1]?.outputs.worst_kl).toBeGreaterThan(1e-3);
  });

  it('keys and values that are not written, because the other arm has written the same', async () => {
    const { decode, warnings } = await bench(
      'rope_kv_write',
      'layers.1.attn.rope_kv',
      skipping('head >= params.heads && token[t].y >= 128u'),
    );
    expect(warnings).toMatch(/at context 128, the logits differ/);
    expect(decode[1]?.outputs.worst_kl).toBeGreaterThan(1e-3);
  });

  it('a norm that is wrong in prompts of the timed length', async () => {
    const { prefill, warnings } = await bench('rms_norm', 'layers.1.ffn.norm', (source) =>
      source.replace(/params\.eps/g, '(params.eps + select(0.0, 9.0, step.tokens == 48u))'),
    );
    expect(warnings).toMatch(/after prompts of 48 tokens, the logits differ/);
    expect(prefill.outputs.worst_kl).toBeGreaterThan(1e-3);
  });
});
