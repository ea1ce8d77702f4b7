/** Constraints on the real adapter with the embedded model. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { maskWords } from '../../kernels/sample.ts';
import {
  type Binding,
  type Constraint,
  type GenerateRequest,
  greedySampling,
  type LabKernel,
  loadEngine,
  type ResidentEngine,
  type Sampling,
} from '../../src/engine/index.ts';
import { stubKernel, unfusedKernels } from '../../src/lab/live/lab-kernel.ts';
import { testPlatform } from '../support/test-platform.ts';
import { fixtureModel } from '../support/shared.ts';

const model = fixtureModel;
let engine: ResidentEngine;
let unfused: ReadonlyMap<string, LabKernel>;
let stubOf: (op: string) => LabKernel;
beforeAll(async () => {
  engine = await loadEngine(testPlatform(), { model, parallel: 4, unreadTokens: 40 });
  const wgsl = await testPlatform().wgsl();
  unfused = unfusedKernels(wgsl);
  stubOf = (op) => stubKernel(wgsl, op, 'q8_0');
});
afterEach(() => engine.bind([], unfused));
afterAll(() => engine.close());

const story = 'Once upon a time there was a little cat that';
const warm: Sampling = { ...greedySampling, temperature: 0.9, topP: 0.95, seed: 11 };

const request = (changes: Partial<GenerateRequest> = {}): GenerateRequest => ({
  prompt: engine.tokenizer.encode(story),
  maxTokens: 40,
  sampling: greedySampling,
  stop: [],
  ignoreEnd: true,
  ...changes,
});

async function answer(to: GenerateRequest, by = engine) {
  const got = { text: '', ids: [] as number[], finishReason: '' };
  for await (const event of by.generate(to)) {
    if (event.type === 'end') got.finishReason = event.finishReason;
    else if (event.type === 'text') {
      got.text += event.text;
      got.ids.push(...event.ids);
    }
  }
  return got;
}

/** Allows the tokens that `allows` returns for the output so far; undefined allows all. */
class Rule implements Constraint {
  readonly answer: number[] = [];
  closed = 0;
  readonly #allows: (id: number, answer: readonly number[]) => boolean | undefined;
  constructor(allows: (id: number, answer: readonly number[]) => boolean | undefined) {
    this.#allows = allows;
  }
  async next(accepted: readonly number[]): Promise<Uint32Array | undefined> {
    this.answer.push(...accepted);
    await new Promise((resolve) => setTimeout(resolve, this.answer.length % 3));
    const { vocabSize } = engine.model;
    if (this.#allows(0, this.answer) === undefined) return undefined;
    const mask = new Uint32Array(maskWords(vocabSize));
    for (let id = 0; id < vocabSize; id++) {
      if (this.#allows(id, this.answer)) mask[id >> 5] = (mask[id >> 5] as number) | (1 << (id & 31));
    }
    return mask;
  }
  close(): void {
    this.closed += 1;
  }
}

/** Excludes the letter e. */
const withoutE = (id: number): boolean => !engine.tokenizer.tokenText(id).toLowerCase().includes('e');
/** A different part of the vocabulary for every token. */
const changing = (id: number, before: readonly number[]): boolean =>
  (id * 7 + (before.at(-1) ?? 0) + before.length) % 3 > 0;

describe('a constrained output', () => {
  it('with a constraint that allows everything is the same as without one, with full or absent masks', async () => {
    for (const sampling of [
      greedySampling,
      warm,
      { ...warm, frequencyPenalty: 0.6, logitBias: new Map([[300, 2]]) },
    ]) {
      const expected = await answer(request({ sampling }));
      for (const rule of [() => true, () => undefined]) {
        const constraint = new Rule(rule);
        expect(await answer(request({ sampling, constraint }))).toEqual(expected);
        expect(constraint).toMatchObject({ closed: 1, answer: expected.ids.slice(0, -1) });
      }
    }
  });

  it('with a constraint to one token at a time is exactly that text', async () => {
    const ids = engine.tokenizer.encode('Zebras quote xylophones: 42!');
    const constraint = new Rule((id, { length }) => id === ids[length]);
    const got = await answer(request({ sampling: warm, constraint, maxTokens: ids.length }));
    expect(got).toMatchObject({ text: 'Zebras quote xylophones: 42!', ids });
  });

  it('contains only allowed tokens, and equals the output with all others banned by logit bias', async () => {
    const banned = Array.from({ length: engine.model.vocabSize }, (_, id) => id).filter(
      (id) => !withoutE(id),
    );
    const logitBias = new Map(banned.map((id) => [id, -1e4]));
    for (const sampling of [greedySampling, warm, { ...warm, topK: 5, presencePenalty: 0.3 }]) {
      const got = await answer(request({ sampling, constraint: new Rule(withoutE) }));
      expect(got.text).not.toMatch(/e/i);
      expect(got).toEqual(await answer(request({ sampling: { ...sampling, logitBias } })));
    }
  });

  it('is the same together with constrained and free outputs, and does not change them', async () => {
    const rules = [changing, undefined, withoutE, undefined, changing, changing, undefined, withoutE];
    const of = (n: number, rule: (typeof rules)[number]) =>
      request({
        sampling: { ...warm, seed: n },
        prompt: engine.tokenizer.encode(story.repeat(1 + (n % 3))),
        ...(rule ? { constraint: new Rule(rule) } : {}),
      });
    const together = await Promise.all(rules.map((rule, n) => answer(of(n, rule))));
    for (const [n, rule] of rules.entries()) expect(together[n]).toEqual(await answer(of(n, rule)));
  });

  it('continues after its reader resumes', async () => {
    const expected = await answer(request({ constraint: new Rule(changing), maxTokens: 120 }));
    const ids: number[] = [];
    const events = engine.generate(request({ constraint: new Rule(changing), maxTokens: 120 }));
    for await (const event of events) {
      if (event.type === 'text') ids.push(...event.ids);
      if (ids.length % 50 === 1) await expect.poll(() => engine.stats().running).toBe(0);
      expect(engine.stats().stalledReaders).toBeLessThan(2);
    }
    expect(ids).toEqual(expected.ids);
    expect(engine.stats()).toMatchObject({ running: 0, queued: 0, stalledReaders: 0 });
  });

  it('with a mask that allows nothing ends with an error that says so, and the next request succeeds', async () => {
    const constraint = new Rule((_, { length }) => length < 5);
    await expect(answer(request({ constraint }))).rejects.toMatchObject({
      code: 'constraint_failed',
      message: expect.stringContaining('after 5 output tokens'),
    });
    expect(constraint.closed).toBe(1);
    expect((await answer(request())).ids).toHaveLength(40);
  });
});

describe('with lab kernels', () => {
  it('a lab sampling kernel gets the masks, the bias and the penalties', async () => {
    const sampling = { ...greedySampling, logitBias: new Map([[300, 3]]), frequencyPenalty: 0.7 };
    const expected = await answer(request({ sampling, constraint: new Rule(changing) }));
    const biased = await answer(request({ sampling }));
    expect(biased).not.toEqual(await answer(request()));
    await engine.bind([{ target: 'sample', kernel: stubOf('sample') }], unfused);
    expect(await answer(request({ sampling, constraint: new Rule(changing) }))).toEqual(expected);
    expect(await answer(request({ sampling }))).toEqual(biased);
  });

  it('they can be bound and unbound while a constraint computes its mask', async () => {
    const expected = await answer(request({ constraint: new Rule(changing) }));
    const bindings: Binding[] = [{ target: 'sample', kernel: stubOf('sample') }];
    let calls = 0;
    class Binder extends Rule {
      override async next(accepted: readonly number[]) {
        calls += 1;
        if (calls % 4 === 0) await engine.bind(calls % 8 === 0 ? bindings : [], unfused);
        return await super.next(accepted);
      }
    }
    expect(await answer(request({ constraint: new Binder(changing) }))).toEqual(expected);
    expect(calls).toBe(40);
  });

  it('exclusive work waits for the request, and the output is not affected', async () => {
    const expected = await answer(request({ constraint: new Rule(changing) }));
    const running = answer(request({ constraint: new Rule(changing) }));
    await engine.exclusive(async (runner) => {
      const step = runner.newStep();
      step.clear();
      step.sample(step.decodeToken(1, 0, 0), 0, 1, greedySampling);
      await runner.submit(step);
    });
    expect(await running).toEqual(expected);
  });
});

it('a device lost while a constraint computes its mask fails the request, and the next one succeeds', async () => {
  const notices: string[] = [];
  const own = await loadEngine(testPlatform(), { model, onNotice: (notice) => notices.push(notice) });
  try {
    const expected = await answer(request(), own);
    let thinks = false;
    const constraint = new Rule(() => undefined);
    constraint.next = async () => {
      thinks = true;
      return await new Promise(() => {});
    };
    const running = answer(request({ constraint }), own);
    const outcome = running.then(
      () => undefined,
      (error: unknown) => error,
    );
    await expect.poll(() => thinks).toBe(true);
    own.runner.gpu.device.destroy();
    expect(await outcome).toMatchObject({ code: 'device_lost' });
    expect(constraint.closed).toBe(1);
    await expect.poll(() => notices.at(-1)).toBe('the model is loaded again');
    expect(await answer(request(), own)).toEqual(expected);
  } finally {
    await own.close();
  }
});
