/** The lab on a model with a window, another activation and fused norms: kernels that lack newer params members. */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ResidentEngine } from '../../src/engine/index.ts';
import { openLab } from '../../src/lab/index.ts';
import { renderStub } from '../../src/lab/stubs.ts';
import type { KernelRegistration } from '../../src/lab/types.ts';
import { testPlatform } from '../support/test-platform.ts';
import { loadFromMemory, tinyModel } from '../support/tiny-model.ts';
import { entryPath } from '../support/host.ts';
import { everyNth } from '../support/tier.ts';

const childPath = entryPath('lab-child');
const { signal } = new AbortController();

type ResidentLab = Awaited<ReturnType<typeof openLab>>;

let engine: ResidentEngine;
let lab: ResidentLab;
let dataDir: string;
beforeAll(async () => {
  engine = await loadFromMemory(
    tinyModel({ architecture: 'gemma3', type: 'Q8_0', headDim: 32, window: 24, context: 256 }),
    { parallel: 2, exact: true },
  );
  dataDir = await mkdtemp(join(tmpdir(), 'lab-architectures-'));
  lab = await openLab({
    engine,
    wgsl: await testPlatform().wgsl(),
    dataDir,
    childPath,
    adapter: undefined,
    dawn: 'any',
    version: '0',
    toggles: [],
    trustedKeys: [],
    allowUnverified: false,
    onWarning: () => {},
  });
});
afterAll(async () => {
  await lab.close();
  await engine.close();
  await rm(dataDir, { recursive: true });
});

async function stubOf(op: string): Promise<KernelRegistration> {
  const { source, dispatch, overrides } = renderStub(await testPlatform().wgsl(), op, 'plain');
  return { name: op, op, source, dispatch, overrides };
}

const findingsOf = (report: Awaited<ReturnType<ResidentLab['register']>>) =>
  report.stages.flatMap(({ findings }) => findings.map(({ code, severity }) => `${severity} ${code}`));

describe('a kernel with an older params struct', () => {
  it.each([
    [
      'attention',
      /\n {2}window: u32,.*/,
      'params.window',
      'window',
      'layers.0.attn.attend',
      'params.window is 24',
    ],
    [
      'gated_activation',
      /\n {2}activation: u32,.*/,
      'params.activation',
      'activation',
      'layers.1.ffn.act',
      'params.activation is 1',
    ],
  ])('%s: is accepted, and bound only where it is right', async (op, member, use, named, target, reason) => {
    const whole = await stubOf(op);
    // As if the member did not exist: it has its neutral value.
    const source = whole.source.replace(member, '').replaceAll(use, '0u');
    expect(source).not.toContain(named + ':');
    const report = await lab.register({ ...whole, name: 'older', source }, signal);
    expect(report.accepted, JSON.stringify(report.stages)).toBe(true);
    expect(findingsOf(report)).toContain('info params_end_early');
    await expect(lab.bind({ kernel: 'older', components: [target] }, signal)).rejects.toMatchObject({
      code: 'incompatible_component',
      message: expect.stringContaining(reason),
    });
    expect(engine.runner.boundPlans).toBeUndefined();
  });

  it('attention can run the layer without a window', async () => {
    const whole = await stubOf('attention');
    const source = whole.source.replace(/\n {2}window: u32,.*/, '').replaceAll('params.window', '0u');
    await lab.register({ ...whole, name: 'older', source }, signal);
    expect(await lab.bind({ kernel: 'older', components: ['layers.1.attn.attend'] }, signal)).toMatchObject({
      bound: true,
    });
    expect(await lab.runParity(signal)).toMatchObject({ ok: true });
    await lab.unbind();
  });

  it('the sample of docs/write-a-kernel.md has an older struct', async () => {
    const path = new URL('../../docs/samples/gate_up.wgsl', import.meta.url);
    const source = await readFile(path, 'utf8');
    expect(source).not.toContain('activation:');
  });
});

describe('a kernel that uses all members', () => {
  it.each(
    everyNth(
      [
        ['attention', 'layers.*.attn.attend'],
        ['attention_decode', 'layers.*.attn.attend'],
        ['norm_add', 'layers.*.attn.post_norm_add'],
        ['gated_matmul', 'layers.*.ffn.gate_up_act'],
        ['rope_kv_write', 'layers.*.attn.rope_kv'],
      ] as const,
      2,
    ),
  )("%s passes the gate, is bound, and gives the model's logits", async (op, target) => {
    const report = await lab.register(await stubOf(op), signal);
    expect(report.accepted, JSON.stringify(report.stages)).toBe(true);
    expect(findingsOf(report)).not.toContain('info params_end_early');
    await lab.bind({ kernel: op, components: [target] }, signal);
    const { ok, components, logits } = await lab.runParity(signal);
    expect(components.length).toBe(2);
    expect({ ok, kl: logits.kl < 1e-5 }).toEqual({ ok: true, kl: true });
    await lab.unbind();
  });
});
