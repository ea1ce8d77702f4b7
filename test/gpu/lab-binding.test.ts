import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { contracts } from '../../kernels/contracts.ts';
import {
  type Binding,
  type GenerationEvent,
  greedySampling,
  klDivergence,
  loadEngine,
  type LabKernel,
  oneTokenSibling,
  type Plan,
  type ResidentEngine,
  targetsOf,
} from '../../src/engine/index.ts';
import { stubKernel, unfusedKernels } from '../../src/lab/live/lab-kernel.ts';
import { testPlatform } from '../support/test-platform.ts';
import { fixtureModel } from '../support/shared.ts';

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

const prompt = 'Once upon a time there was a little cat that';

async function answer(options: { temperature?: number; tokens?: number; onText?: () => Promise<void> } = {}) {
  const { temperature = 0, tokens = 40, onText } = options;
  let text = '';
  for await (const event of engine.generate({
    prompt: engine.tokenizer.encode(prompt),
    maxTokens: tokens,
    sampling: { ...greedySampling, temperature, seed: 11 },
    stop: [],
    ignoreEnd: true,
  })) {
    if (event.type !== 'text') continue;
    text += event.text;
    await onText?.();
  }
  return text;
}

/** Logits after a prompt of several tokens, and after one more decoded token. */
async function logits(): Promise<Float32Array[]> {
  return await engine.exclusive(async (runner) => {
    const tokens = [...engine.tokenizer.encode(prompt)];
    runner.setPages(0, [1, 0]);
    const step = runner.newStep();
    step.clear();
    step.sample(step.prefillTokens(tokens, 0, tokens.length, 0), 0, tokens.length, greedySampling);
    const [behindPrompt] = await runner.logits(step);
    step.clear();
    step.sample(step.decodeToken(7, tokens.length, 0), 0, tokens.length + 1, greedySampling);
    const [behindToken] = await runner.logits(step);
    return [behindPrompt as Float32Array, behindToken as Float32Array];
  });
}

describe('a correct kernel gives the same logits', () => {
  const targets = () => targetsOf(engine.graph);
  for (const op of [...contracts.keys()].filter((name) => name !== 'head_norm')) {
    it(`${op}, on all compatible targets`, async () => {
      const base = targets().find((target) => [target.op, oneTokenSibling(target.op)].includes(op))?.op;
      const expected = await logits();
      for (const isSpan of [false, true]) {
        const fitting = targets().filter((target) => target.op === base && target.isSpan === isSpan);
        if (fitting.length === 0) continue;
        const kernel = stubOf(op);
        await engine.bind(
          fitting.map(({ id }): Binding => ({ target: id, kernel })),
          unfused,
        );
        const bound = engine.runner.boundPlans;
        expect(bound?.singleToken.dispatches.filter(({ lab }) => lab?.kernel === kernel)).toHaveLength(
          fitting.length,
        );
        // A single-token kernel does not run in larger steps.
        const many = contracts.get(op)?.tokens === 'any' ? fitting.length : 0;
        expect(bound?.multiToken.dispatches.filter(({ lab }) => lab?.kernel === kernel)).toHaveLength(many);
        const got = await logits();
        for (const [index, row] of expected.entries()) {
          expect(klDivergence(row, got[index] as Float32Array), `${op} ${index}`).toBeLessThan(1e-6);
        }
      }
    });
  }

  it('a wrong kernel gives different logits, so the test above can fail', async () => {
    const expected = await logits();
    const right = stubOf('rms_norm');
    const wrong = {
      ...right,
      digest: 'wrong',
      code: right.code.replace(/params\.eps/g, '(params.eps + 0.5)'),
    };
    await engine.bind([{ target: 'layers.1.ffn.norm', kernel: wrong }], unfused);
    const got = await logits();
    expect(klDivergence(expected[0] as Float32Array, got[0] as Float32Array)).toBeGreaterThan(1e-5);
  });
});

it('a kernel that computes NaN fails the request and is named, and the next request without it succeeds', async () => {
  const right = stubOf('rms_norm');
  const kernel = {
    ...right,
    name: 'nan.norm',
    digest: 'nan',
    code: right.code.replace(
      /params\.eps/g,
      '(params.eps + bitcast<f32>(0x7fc00000u | (params.columns & 1u)))',
    ),
  };
  const alone = await answer({ tokens: 4 });
  await engine.bind([{ target: 'layers.1.ffn.norm', kernel }], unfused);
  await expect(answer({ tokens: 4 })).rejects.toMatchObject({
    code: 'broken_model',
    message: expect.stringMatching(/a bound lab kernel \(nan\.norm\) computed them/),
  });
  await engine.bind([], unfused);
  expect(await answer({ tokens: 4 })).toBe(alone);
});

it('a single-token and a multi-token kernel can share a target', async () => {
  const [matmul, matvec] = [stubOf('matmul'), stubOf('matvec')];
  const target = 'layers.1.attn.q';
  const expected = await logits();
  await engine.bind(
    [
      { target, kernel: matmul },
      { target, kernel: matvec },
    ],
    unfused,
  );
  const runs = (plan: Plan | undefined) =>
    plan?.dispatches.flatMap(({ lab }) => (lab?.target === target ? [lab.kernel.name] : []));
  expect(runs(engine.runner.boundPlans?.singleToken)).toEqual([matvec.name]);
  expect(runs(engine.runner.boundPlans?.multiToken)).toEqual([matmul.name]);
  const got = await logits();
  for (const [index, row] of expected.entries()) {
    expect(klDivergence(row, got[index] as Float32Array)).toBeLessThan(1e-6);
  }
});

describe('binding', () => {
  it('takes effect between two tokens of a running generation, which gives the same text for the same seed', async () => {
    const alone = await answer({ temperature: 0.8 });
    let heard = 0;
    const kernel = stubOf('rms_norm');
    const swapped = await answer({
      temperature: 0.8,
      async onText() {
        heard += 1;
        if (heard === 5) await engine.bind([{ target: 'layers.1.attn.norm', kernel }], unfused);
        if (heard === 15) await engine.bind([], unfused);
      },
    });
    expect(heard).toBeGreaterThan(15);
    expect(swapped).toBe(alone);
  });

  it('forgets the keys and values of other kernels, also those of answers that are running', async () => {
    // Two answers have one page and more of a prompt in common, so that the second could reuse it.
    const words = `${prompt} lived in a house by the sea and liked to sleep in the sun all day long. `.repeat(
      3,
    );
    const complete = async (onText?: () => Promise<void>) => {
      let text = '';
      let cached = -1;
      for await (const event of engine.generate({
        prompt: engine.tokenizer.encode(words),
        maxTokens: 24,
        sampling: greedySampling,
        stop: [],
        ignoreEnd: true,
      })) {
        if (event.type === 'end') cached = event.usage.cached_tokens;
        if (event.type !== 'text') continue;
        text += event.text;
        await onText?.();
      }
      return { text, cached };
    };
    const { text: right } = await complete();
    expect((await complete()).cached).toBeGreaterThan(30);
    const stub = stubOf('rope_kv_write');
    const wrong = {
      ...stub,
      digest: 'positions swapped',
      code: stub.code.replace(/token\[(\w+)\]\.y/, '(token[$1].y ^ 1u)'),
    };
    expect(wrong.code).not.toBe(stub.code);
    const bindings = [0, 1].map((layer) => ({ target: `layers.${layer}.attn.rope_kv`, kernel: wrong }));
    const targets = new Set(targetsOf(engine.graph).map(({ id }) => id));
    const bindWrong = () =>
      engine.bind(
        bindings.filter(({ target }) => targets.has(target)),
        unfused,
      );
    await bindWrong();
    const { text: other, cached } = await complete();
    expect(cached).toBe(0);
    expect(other).not.toBe(right);
    await engine.bind([], unfused);
    expect(await complete()).toEqual({ text: right, cached: 0 });
    // Unbound while the answer runs: the rest of it is not kept either.
    await bindWrong();
    let heard = 0;
    await complete(async () => {
      if (++heard === 3) await engine.bind([], unfused);
    });
    expect(await complete()).toEqual({ text: right, cached: 0 });
    expect((await complete()).cached).toBeGreaterThan(30);
  });

  it('binds all or nothing: a kernel that does not compile keeps the previous bindings', async () => {
    const good = stubOf('rms_norm');
    await engine.bind([{ target: 'layers.0.attn.norm', kernel: good }], unfused);
    const before = engine.runner.boundPlans;
    const broken = { ...good, digest: 'broken', code: 'fn main() { nonsense }' };
    await expect(
      engine.bind(
        [
          { target: 'layers.0.attn.norm', kernel: good },
          { target: 'layers.1.attn.norm', kernel: broken },
        ],
        unfused,
      ),
    ).rejects.toThrow('does not compile');
    expect(engine.runner.boundPlans).toBe(before);
    expect(await answer({ tokens: 5 })).not.toBe('');
  });

  it('leaks no buffer over many changes', async () => {
    const { device } = engine.runner.gpu;
    const create = device.createBuffer.bind(device);
    const alive = new Set<GPUBuffer>();
    device.createBuffer = (descriptor) => {
      const buffer = create(descriptor);
      const destroy = buffer.destroy.bind(buffer);
      alive.add(buffer);
      buffer.destroy = () => {
        alive.delete(buffer);
        destroy();
      };
      return buffer;
    };
    try {
      const kernel = stubOf('rms_norm');
      const bind = () => engine.bind([{ target: 'layers.0.attn.norm', kernel }], unfused);
      await bind();
      const before = alive.size;
      expect(before).toBeGreaterThan(0);
      for (let n = 0; n < 30; n++) await bind();
      expect(alive.size).toBe(before);
      const tried = [{ target: 'layers.1.attn.norm', kernel }];
      const size = await engine.exclusive(() => engine.tryBindings(tried, unfused, async () => alive.size));
      expect(size).toBeGreaterThan(before);
      expect(alive.size).toBe(before);
      await engine.bind([], unfused);
      expect(alive.size).toBeLessThan(before);
    } finally {
      device.createBuffer = create;
    }
  });
});

describe('exclusive work', () => {
  it('waits for running generations, and delays new ones', async () => {
    const order: string[] = [];
    const first = answer();
    const work = engine.exclusive(async () => {
      expect(engine.stats().running).toBe(0);
      order.push('work begins');
      await new Promise((resolve) => setTimeout(resolve, 50));
      order.push('work ends');
    });
    expect(await first).not.toBe('');
    const second = answer({ tokens: 3 }).then(() => order.push('second answer'));
    await Promise.all([work, second]);
    expect(order).toEqual(['work begins', 'work ends', 'second answer']);
  });

  it('leaves the queue when its signal aborts, and generations continue', async () => {
    const running = answer();
    const gone = AbortSignal.timeout(20);
    let ran = false;
    const work = engine.exclusive(async () => {
      ran = true;
    }, gone);
    await expect(work).rejects.toThrow(/timeout/);
    expect(await running).not.toBe('');
    expect(ran).toBe(false);
  });

  it('uses the kernels that were bound when it began', async () => {
    await engine.bind([{ target: 'layers.0.attn.norm', kernel: stubOf('rms_norm') }], unfused);
    await engine.exclusive(async (runner) => {
      const plan = runner.boundPlans?.multiToken;
      await engine.bind([], unfused);
      const step = runner.newStep();
      step.clear();
      step.sample(step.prefillTokens([1, 2, 3], 0, 3, 0), 0, 3, greedySampling);
      const { device } = runner.gpu;
      device.pushErrorScope('validation');
      await runner.logits(step, plan);
      expect(await device.popErrorScope()).toBeNull();
    });
  });

  it('may write to the cache: prompts are recomputed afterwards', async () => {
    const before = await answer();
    await logits();
    const events: GenerationEvent[] = [];
    for await (const event of engine.generate({
      prompt: engine.tokenizer.encode(prompt),
      maxTokens: 40,
      sampling: greedySampling,
      stop: [],
      ignoreEnd: true,
    }))
      events.push(event);
    const end = events.at(-1);
    expect(end?.type === 'end' && end.usage.cached_tokens).toBe(0);
    expect(events.map((event) => (event.type === 'text' ? event.text : '')).join('')).toBe(before);
  });
});

describe('binding', () => {
  it('compiles kernels before the live plan changes, so that no step waits for the driver’s compiler', async () => {
    const { device } = engine.runner.gpu;
    const kernel = stubOf('rms_norm');
    const create = device.createCommandEncoder.bind(device);
    const compiled: (string | undefined)[] = [];
    device.createCommandEncoder = (descriptor) => {
      const encoder = create(descriptor);
      if (descriptor?.label !== 'compile') return encoder;
      const begin = encoder.beginComputePass.bind(encoder);
      encoder.beginComputePass = (of) => {
        const pass = begin(of);
        const set = pass.setPipeline.bind(pass);
        pass.setPipeline = (pipeline) => {
          expect(engine.runner.boundPlans).toBeUndefined();
          compiled.push(pipeline.label);
          set(pipeline);
        };
        return pass;
      };
      return encoder;
    };
    try {
      await engine.bind([{ target: 'layers.0.attn.norm', kernel }], unfused);
    } finally {
      device.createCommandEncoder = create;
    }
    expect(compiled).toContain(`lab:${kernel.name}`);
    expect(engine.runner.boundPlans).toBeDefined();
  });
});

describe('a device that is lost while kernels are bound', () => {
  it('is replaced, the built-in kernels run, and the lab is notified', async () => {
    const own = await loadEngine(testPlatform(), { model: fixtureModel });
    try {
      const lost = new Promise<string>((resolve) => (own.onBindingsLost = resolve));
      await own.bind([{ target: 'layers.0.attn.norm', kernel: stubOf('rms_norm') }], unfused);
      expect(own.runner.boundPlans).toBeDefined();
      own.runner.gpu.device.destroy();
      expect(await lost).toContain('destroyed');
      await expect.poll(() => own.runner.boundPlans === undefined).toBe(true);
      expect(own.stats().deviceLosses).toBe(1);
    } finally {
      await own.close();
    }
  });

  it('counts as lost by kernels that are only tried', async () => {
    const own = await loadEngine(testPlatform(), { model: fixtureModel });
    try {
      const lost = new Promise<string>((resolve) => (own.onBindingsLost = resolve));
      const tried = [{ target: 'layers.0.attn.norm', kernel: stubOf('rms_norm') }];
      const trial = own.exclusive(() =>
        own.tryBindings(tried, unfused, () => {
          own.runner.gpu.device.destroy();
          return new Promise(() => {});
        }),
      );
      await expect(trial).rejects.toMatchObject({ code: 'device_lost' });
      expect(await lost).toContain('destroyed');
      await expect.poll(() => own.stats().deviceLosses).toBe(1);
    } finally {
      await own.close();
    }
  });
});
