/** A parity run detects errors that no case of the gate detects. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { loadEngine, type LabKernel, type ResidentEngine } from '../../src/engine/index.ts';
import { stubKernel, unfusedKernels } from '../../src/lab/live/lab-kernel.ts';
import { LiveModel } from '../../src/lab/live/live-model.ts';
import { componentParity, logitsParity, maxTextTokens } from '../../src/lab/live/parity.ts';
import { labOps } from '../../src/lab/ops/index.ts';
import { testPlatform } from '../support/test-platform.ts';
import { fixtureModel } from '../support/shared.ts';
import { runsRest } from '../support/tier.ts';

let engine: ResidentEngine;
let unfused: ReadonlyMap<string, LabKernel>;
let stubOf: (op: string) => LabKernel;
beforeAll(async () => {
  engine = await loadEngine(testPlatform(), { model: fixtureModel, parallel: 4 });
  const wgsl = await testPlatform().wgsl();
  unfused = unfusedKernels(wgsl);
  stubOf = (op) => stubKernel(wgsl, op, 'q8_0');
});
afterEach(() => engine.bind([], unfused));
afterAll(() => engine.close());

/** Binds a modified stub and runs parity. */
async function parityOf(op: string, target: string, before: string, after: string) {
  const stub = stubOf(op);
  expect(stub.code).toContain(before);
  const kernel = {
    ...stub,
    name: 'changed',
    digest: `${op} ${after}`,
    code: stub.code.replace(before, after),
  };
  await engine.bind([{ target, kernel }], unfused);
  return await engine.exclusive(async (runner) => {
    const { boundPlans: bound } = runner;
    if (!bound) throw new Error('nothing is bound');
    const text = Array.from({ length: maxTextTokens }, (_, i) => (i * 71 + 5) % 400);
    const { signal } = new AbortController();
    const standIns = new Set(unfused.values());
    const components = await componentParity(runner, bound, text, {
      mode: { mode: 'standard' },
      standIns,
      signal,
    });
    const logits = await logitsParity(runner, bound, text, signal);
    expect(logits.positions).toBeGreaterThan(64);
    return { isRight: components.every(({ ok }) => ok), kl: logits.kl };
  });
}

const position = 'let position = token[t].y;';
const slot = 'let slot = token[t].z;';
const attend = 'layers.1.attn.attend';
const norm = 'x[start + c] * inverse_rms * norm_weight[c]';

describe('a parity run', () => {
  it('passes for a correct kernel', async () => {
    const { isRight, kl } = await parityOf('attention', attend, position, `${position} `);
    expect(isRight).toBe(true);
    expect(kl).toBeLessThan(1e-6);
  });

  it.each(['attention', 'attention_decode'])('%s: detects skipped far positions', async (op) => {
    const { isRight, kl } = await parityOf(op, attend, position, 'let position = min(token[t].y, 400u);');
    expect(isRight).toBe(false);
    expect(kl).toBeGreaterThan(1e-3);
  });

  it('detects tokens that are skipped at the end of the context', async () => {
    const { context } = engine.runner.memory.capacity;
    const skip = `${position} if (position > ${context - 2}u) { return; }`;
    const { isRight, kl } = await parityOf('attention_decode', attend, position, skip);
    expect(isRight).toBe(true);
    expect(kl).toBeGreaterThan(1e-3);
  });

  it('detects keys and values that are not written, although the built-in kernels write the same', async () => {
    const written = 'if (head < params.heads + params.kv_heads) {';
    const { kl } = await parityOf(
      'rope_kv_write',
      'layers.1.attn.rope_kv',
      written,
      'if (position < 9u) {} else if (head < params.heads + params.kv_heads) {',
    );
    expect(kl).toBeGreaterThan(1e-3);
  });

  it.runIf(runsRest)('detects reads of another slot in steps with several sequences', async () => {
    const wrong = 'let slot = select(token[t].z, 0u, step.tokens > 3u);';
    expect((await parityOf('attention', attend, slot, wrong)).kl).toBeGreaterThan(1e-3);
  });

  it.runIf(runsRest)('detects skipped rows of large steps', async () => {
    const wrong = `select(${norm}, 0.0, token > 90u)`;
    expect((await parityOf('rms_norm', 'layers.0.attn.norm', norm, wrong)).kl).toBeGreaterThan(1e-3);
  });
});

describe('activations captured for the gate', () => {
  it('are those of the model, for every op that it has', async () => {
    const live = new LiveModel(engine, await testPlatform().wgsl(), unfused);
    for (const op of labOps.keys()) {
      const { captured } = await live.shapes(op, new AbortController().signal);
      const cases = captured[op] ?? [];
      expect(cases.length > 0, op).toBe(!['head_norm', 'norm_add'].includes(op));
      for (const { name, tensors, dims } of cases) {
        for (const [binding, values] of Object.entries(tensors)) {
          // Without biases, and with counts of sampled tokens at zero.
          if (['bias', 'seen'].includes(binding)) continue;
          expect(
            values.some((value) => value !== 0),
            `${name}: ${binding}`,
          ).toBe(true);
        }
        const token = tensors['token'];
        if (token) expect(token[1], name).toBe(37);
        expect(dims['tokens'], name).toBeGreaterThan(0);
      }
    }
  });
});
