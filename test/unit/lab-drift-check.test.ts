import { describe, expect, it } from 'vitest';
import { contracts } from '../../kernels/contracts.ts';
import type { BoundKernel } from '../../src/lab/bindings.ts';
import { DriftCheck, type DriftCheckOptions } from '../../src/lab/live/drift-check.ts';
import type { RegisteredKernel } from '../../src/lab/registry.ts';
import { LabError } from '../../src/lab/types.ts';

const signal = new AbortController().signal;

/** A kernel of a registration, bound to a target. */
function boundKernel(op: string, target: string, report: object = {}): BoundKernel {
  const registered = { registration: { name: `my.${op}`, op }, report } as unknown as RegisteredKernel;
  const kernel = { name: `my.${op}`, contract: contracts.get(op) } as BoundKernel['kernel'];
  return { target, kernel, digest: op, registered };
}

/** A check that measures this divergence, and records what it tried. */
function checkOf(meanKl: number) {
  const tried: (readonly BoundKernel[])[] = [];
  const prompts: boolean[] = [];
  const engine = {
    exclusive: (work: (...args: unknown[]) => unknown) => work({}, () => Promise.resolve(true)),
    tryBindings: (_: unknown, __: unknown, work: (plans: unknown) => unknown) => work({}),
  } as unknown as DriftCheckOptions['engine'];
  const check = new DriftCheck({
    engine,
    bindings: {
      trial: (bound, work) => {
        tried.push(bound);
        return work();
      },
    },
    unfused: new Map(),
    measure: (_, __, { hasPrompts }) => {
      prompts.push(hasPrompts);
      const decode = { total: 32, same: 32, meanKl, worstKl: 2 * meanKl };
      return Promise.resolve({ prefill: undefined, decode, sampled: undefined });
    },
  });
  return { check, tried, prompts };
}

describe('kernels that are bound together', () => {
  const norm = boundKernel('rms_norm', 'layers.0.attn.norm');
  const product = boundKernel('matmul', 'layers.0.attn.o');

  it('are measured as they will be bound, with the largest limit of their ops', async () => {
    const { check, tried, prompts } = checkOf(4e-4);
    const drift = await check.requireTogether([norm, product], signal);
    expect(tried).toEqual([[norm, product]]);
    expect(prompts).toEqual([true]);
    expect(drift).toEqual({ components: 2, positions: 32, mean_kl: 4e-4, worst_kl: 8e-4, top1_agreement: 1 });
  });

  it('are refused when the model computes something else with them', async () => {
    const { check } = checkOf(4e-4);
    const embed = boundKernel('embed', 'embed');
    const refused = check.requireTogether([norm, embed], signal);
    await expect(refused).rejects.toThrow(LabError);
    await expect(refused).rejects.toThrow(
      /my\.rms_norm, my\.embed cannot be bound together.*differ by 0\.00040 nats \(worst 0\.00080, at most 0\.00005 /,
    );
    // Kernels that were accepted with a larger tolerance have that limit.
    const loose = boundKernel('embed', 'embed', { tolerance: { scale: 10 } });
    await expect(check.requireTogether([norm, loose], signal)).resolves.toBeDefined();
  });

  it('are not measured where there is one kernel, or one that was never compared', async () => {
    const { check, tried } = checkOf(1);
    const again = boundKernel('rms_norm', 'layers.1.attn.norm');
    expect(await check.requireTogether([norm, again], signal)).toBeUndefined();
    const unverified = boundKernel('embed', 'embed', { unverified: true });
    expect(await check.requireTogether([norm, unverified], signal)).toBeUndefined();
    expect(tried).toEqual([]);
  });
});
