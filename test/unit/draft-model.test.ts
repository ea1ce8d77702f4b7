/** Draft models with simulated GPUs that share a clock. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { noToken } from '../../kernels/sample.ts';
import { ModelDrafter } from '../../src/engine/speculation/draft-model.ts';
import { type GenerateRequest, greedySampling } from '../../src/engine/types.ts';
import { long, request, run, turns, world } from '../support/scheduler-world.ts';
import { outputAlone, read } from '../support/simulated-runner.ts';

/** Texts with hardly any repetition, so that prompt lookup drafts poorly. */
const fresh = (seed: number, maxTokens = 60): GenerateRequest => ({
  ...long(seed, maxTokens, run(seed * 7 + 1, 30 + seed)),
  sampling: { ...greedySampling, seed: seed * 31 + 5, temperature: 0.7 },
});

describe('a draft model', () => {
  it('that agrees with the target has its drafts accepted, and the output takes few steps', async () => {
    const { runner, drafter, counts, answer } = world({ speculation: 'always', draft: {} });
    const one = fresh(1, 120);
    const { ids, end } = await answer(one);
    expect(ids).toEqual(outputAlone(one));
    expect(end.usage.completion_tokens).toBe(120);
    expect(runner.steps.length).toBeLessThan(30);
    expect(drafter?.chains.some((count) => count === 7)).toBe(true);
    expect(counts.byModel.drafted).toBeGreaterThan(0);
    expect(counts.byModel.accepted).toBe(counts.byModel.drafted);
    expect(counts.drafted).toBeGreaterThanOrEqual(counts.byModel.drafted);
  });

  it.each([0.05, 0.5, 1])('with a fraction %f of wrong drafts does not change the output', async (wrong) => {
    const { counts, answer } = world({ speculation: 'always', slots: 3, draft: { wrong } });
    const list = Array.from({ length: 9 }, (_, seed) => fresh(seed));
    const got = await Promise.all(list.map(answer));
    for (const [index, one] of list.entries()) expect(got[index]?.ids).toEqual(outputAlone(one));
    const { drafted, accepted } = counts.byModel;
    expect(drafted).toBeGreaterThan(50);
    const share = accepted / drafted;
    if (wrong === 1) expect(share).toBe(0);
    else expect(share).toBeGreaterThan(wrong < 0.1 ? 0.6 : 0.05);
  });

  it('computes missing tokens in chunks, between steps of other sequences', async () => {
    const { runner, drafter, add } = world({ speculation: 'always', pages: 200, stepTokens: 256, draft: {} });
    const first = read(add(fresh(2, 200)));
    await turns(12);
    const stepsBefore = runner.steps.length;
    const prompt = run(5, 450);
    const second = read(add({ ...fresh(3, 20), prompt }));
    const chunks: number[] = [];
    const submitChain = drafter!.submitChain.bind(drafter);
    let targetSteps = stepsBefore;
    drafter!.submitChain = (steps) => {
      const result = submitChain(steps);
      const { promptTokens } = drafter!.steps.at(-1)!;
      if (promptTokens > 8) {
        chunks.push(promptTokens);
        // Another sequence's step ran since the previous chunk.
        expect(runner.steps.length).toBeGreaterThan(targetSteps);
        targetSteps = runner.steps.length;
      }
      return result;
    };
    expect((await second).ids).toEqual(outputAlone({ ...fresh(3, 20), prompt }));
    expect((await first).ids).toEqual(outputAlone(fresh(2, 200)));
    expect(chunks.length).toBeGreaterThan(3);
    // A prompt token takes 2 ms here, and other sequences wait at most 250 ms.
    expect(Math.max(...chunks)).toBeLessThanOrEqual(125);
  });

  it('reuses what a slot holds of the same conversation', async () => {
    const { drafter, answer } = world({ speculation: 'always', slots: 1, draft: {} });
    const one = { ...fresh(4, 40), prompt: run(9, 200) };
    const { ids } = await answer(one);
    const before = drafter!.steps.reduce((sum, { promptTokens }) => sum + promptTokens, 0);
    const next = { ...fresh(6, 40), prompt: [...one.prompt, ...ids, ...run(3, 12)] };
    expect((await answer(next)).ids).toEqual(outputAlone(next));
    const after = drafter!.steps.reduce((sum, { promptTokens }) => sum + promptTokens, 0);
    expect(before).toBeGreaterThanOrEqual(190);
    expect(after - before).toBeLessThan(60);
    // Another text in the same slot reuses nothing.
    const other = { ...fresh(7, 40), prompt: run(2, 90) };
    expect((await answer(other)).ids).toEqual(outputAlone(other));
  });

  it('discards its cache when prefixes are discarded', async () => {
    const { drafter, answer, scheduler } = world({ speculation: 'always', slots: 1, draft: {} });
    const one = { ...fresh(4, 10), prompt: run(9, 200) };
    await answer(one);
    scheduler.forgetPrefixes();
    const before = drafter!.steps.reduce((sum, { promptTokens }) => sum + promptTokens, 0);
    await answer(one);
    const after = drafter!.steps.reduce((sum, { promptTokens }) => sum + promptTokens, 0);
    expect(after - before).toBeGreaterThanOrEqual(190);
  });

  it('does not draft for a text without pages, and nothing waits for it', async () => {
    const { counts, drafter, runner, answer } = world({ speculation: 'always', draft: { pages: 2 } });
    const [small, large] = [fresh(1, 20), { ...fresh(2, 60), prompt: run(4, 100) }];
    const got = await Promise.all([answer(small), answer(large)]);
    expect(got.map(({ ids }) => ids)).toEqual([outputAlone(small), outputAlone(large)]);
    expect(counts.byModel.accepted).toBeGreaterThan(0);
    expect(drafter!.chains.length).toBeLessThan(runner.steps.length);
    // Pages of an ended sequence are reclaimed.
    const again = fresh(3, 20);
    const { drafted } = counts.byModel;
    expect((await answer(again)).ids).toEqual(outputAlone(again));
    expect(counts.byModel.drafted).toBeGreaterThan(drafted);
  });

  it('with a shorter context drafts only within it', async () => {
    const { counts, drafter, answer } = world({ speculation: 'always', draft: { context: 64 } });
    const one = { ...fresh(1, 120), prompt: run(8, 40) };
    expect((await answer(one)).ids).toEqual(outputAlone(one));
    expect(counts.byModel.accepted).toBeGreaterThan(5);
    expect(counts.byModel.accepted).toBeLessThanOrEqual(25);
    const beyond = { ...fresh(2, 30), prompt: run(8, 70) };
    const { length } = drafter!.chains;
    expect((await answer(beyond)).ids).toEqual(outputAlone(beyond));
    expect(drafter!.chains.length).toBe(length);
  });

  it('does not draft for requests with penalties, or with speculation off', async () => {
    const { drafter, answer } = world({ speculation: 'always', draft: {} });
    await answer({ ...fresh(1), sampling: { ...greedySampling, presencePenalty: 0.5 } });
    expect(drafter!.chains).toEqual([]);
    const off = world({ speculation: 'off', draft: {} });
    await off.answer(fresh(1));
    expect(off.drafter!.chains).toEqual([]);
  });

  it('a sequence canceled during drafting does not affect the others or its slot', async () => {
    const { drafter, add, scheduler, failures } = world({ speculation: 'always', slots: 2, draft: {} });
    const [gone, stays] = [add(fresh(1, 100)), add(fresh(2, 100))];
    const failed = expect(read(gone)).rejects.toThrow('no longer wanted');
    const answered = read(stays);
    let chains = 0;
    const submitChain = drafter!.submitChain.bind(drafter);
    drafter!.submitChain = (steps) => {
      const result = submitChain(steps);
      if (++chains === 3) scheduler.cancel(gone, new Error('no longer wanted'));
      return result;
    };
    const next = read(add(fresh(3, 50)));
    await failed;
    expect((await answered).ids).toEqual(outputAlone(fresh(2, 100)));
    expect((await next).ids).toEqual(outputAlone(fresh(3, 50)));
    expect(failures).toEqual([]);
    expect(scheduler.running).toBe(0);
  });

  it('drafts of tokens outside the target vocabulary are dropped, with all after them', async () => {
    const { runner, drafter, answer, counts } = world({ speculation: 'always', draft: {} });
    const submitChain = drafter!.submitChain.bind(drafter);
    drafter!.submitChain = async (steps) => {
      const ids = await submitChain(steps);
      // Beyond the vocabulary, or from NaN logits.
      if (ids.length > 2) ids[2] = drafter!.chains.length % 2 ? 5000 : noToken;
      return ids;
    };
    const submit = runner.submit.bind(runner);
    let maxId = 0;
    runner.submit = (step) => {
      const words = step.bytes();
      for (let row = 0; row < step.dims.tokens; row++) {
        const id = words[step.layout.tokens / 4 + row * 4]!;
        // The token of a plain step stays on the GPU; a draft is never taken from there.
        if (step.dims.singleTiles === 0) maxId = Math.max(maxId, id);
      }
      return submit(step);
    };
    const one = fresh(1, 100);
    expect((await answer(one)).ids).toEqual(outputAlone(one));
    expect(maxId).toBeLessThan(259);
    expect(counts.byModel.accepted).toBeGreaterThan(10);
    expect(counts.byModel.accepted).toBe(counts.byModel.drafted);
  });

  it('a failed draft step fails all sequences, as any failed step does', async () => {
    const { drafter, add, failures, scheduler } = world({ speculation: 'always', draft: {} });
    drafter!.submitChain = () => Promise.reject(new Error('the mapping was refused'));
    await expect(read(add(fresh(1)))).rejects.toThrow('the mapping was refused');
    await scheduler.whenIdle();
    expect(failures).toEqual(['the mapping was refused']);
  });

  it('a stopped scheduler waits for drafts in flight', async () => {
    const { drafter, add, scheduler } = world({ speculation: 'always', draft: {} });
    const failed = expect(read(add(fresh(1, 100)))).rejects.toThrow('over');
    const submitChain = drafter!.submitChain.bind(drafter);
    let ended = false;
    const { promise: begun, resolve } = Promise.withResolvers<void>();
    drafter!.submitChain = async (steps) => {
      resolve();
      const result = await submitChain(steps);
      await turns(5);
      ended = true;
      return result;
    };
    await begun;
    scheduler.stop(new Error('over'));
    await scheduler.whenIdle();
    expect(ended).toBe(true);
    await failed;
  });
});

describe('measured drafting', () => {
  /** Outputs one after the other, and several at once; returns the total time. */
  async function time(draft: { wrong: number } | undefined, stepMs: number, rounds = 40) {
    const { runner, drafter, answer, counts } = world({ speculation: 'auto', pages: 200, draft });
    runner.cost = (rows, prompt) => 20 + 0.2 * rows + 0.5 * prompt;
    if (drafter) drafter.cost = (rows, prompt) => stepMs + 0.05 * rows + 0.1 * prompt;
    for (let seed = 0; seed < rounds; seed++) {
      const one = fresh(seed, 100);
      expect((await answer(one)).ids).toEqual(outputAlone(one));
    }
    const list = Array.from({ length: 12 }, (_, seed) => fresh(seed + 50, 100));
    const got = await Promise.all(list.map(answer));
    for (const [index, one] of list.entries()) expect(got[index]?.ids).toEqual(outputAlone(one));
    return { ms: runner.time, counts };
  }

  it('is faster when the model is accurate and fast', async () => {
    const [without, with_] = [await time(undefined, 0), await time({ wrong: 0 }, 2)];
    expect(with_.counts.byModel.accepted).toBeGreaterThan(2000);
    expect(with_.ms).toBeLessThan(0.7 * without.ms);
  });

  it.each([
    { what: 'it is always wrong', wrong: 1, stepMs: 2 },
    { what: 'it is mostly wrong', wrong: 0.7, stepMs: 4 },
    { what: 'it is as slow as the model itself', wrong: 0, stepMs: 20 },
    { what: 'it is slower', wrong: 0, stepMs: 60 },
  ])('costs almost nothing when $what', async ({ wrong, stepMs }) => {
    const [without, with_] = [await time(undefined, 0), await time({ wrong }, stepMs)];
    expect(with_.ms).toBeLessThan(1.04 * without.ms);
  });

  it('resumes when the model becomes accurate', async () => {
    const { runner, drafter, answer, counts } = world({
      speculation: 'auto',
      pages: 200,
      draft: { wrong: 1 },
    });
    runner.cost = (rows, prompt) => 20 + 0.2 * rows + 0.5 * prompt;
    drafter!.cost = () => 1;
    for (let seed = 0; seed < 20; seed++) await answer(fresh(seed, 100));
    expect(counts.byModel.accepted).toBe(0);
    Object.assign(drafter!, { wrong: 0 });
    for (let seed = 0; seed < 60; seed++) await answer(fresh(seed, 100));
    expect(counts.byModel.accepted).toBeGreaterThan(1000);
  });
});

describe('a draft of the model', () => {
  it('continues the text it was made for, as long as it is correct', () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat(3), { minLength: 1, maxLength: 10 }),
        fc.array(fc.nat(3), { maxLength: 7 }),
        fc.array(fc.nat(3), { maxLength: 10 }),
        (text, draftTokens, more) => {
          const tokens = [...text];
          const one = new ModelDrafter(tokens, 0.5);
          one.setDraft(draftTokens);
          let right = true;
          for (const [n, id] of more.entries()) {
            const expected = right ? draftTokens[n] : undefined;
            expect(one.availableTokens).toBe(right ? Math.max(0, draftTokens.length - n) : 0);
            expect(one.propose(0, 9)).toEqual(right ? draftTokens.slice(n) : []);
            expect(one.propose(1, 2)).toEqual(right ? draftTokens.slice(n + 1, n + 3) : []);
            tokens.push(id);
            const { acceptance } = one;
            const hit = one.observe();
            expect(hit).toBe(expected === undefined ? undefined : expected === id);
            if (hit === true) expect(one.acceptance).toBeGreaterThan(acceptance);
            if (hit === false) expect(one.acceptance).toBeLessThan(acceptance);
            right &&= hit === true;
          }
        },
      ),
    );
  });
});

it('requests that share steps with both kinds of drafts get the same tokens as alone', async () => {
  const { counts, answer } = world({ speculation: 'always', slots: 6, draft: { wrong: 0.2 } });
  const repetitive = (seed: number) => request({ prompt: run(seed, 60), maxTokens: 100, ignoreEnd: true });
  const list = Array.from({ length: 18 }, (_, seed) => (seed % 2 ? fresh(seed) : repetitive(seed)));
  const got = await Promise.all(list.map(answer));
  for (const [index, one] of list.entries()) expect(got[index]?.ids).toEqual(outputAlone(one));
  expect(counts.byModel.accepted).toBeGreaterThan(50);
  expect(counts.accepted - counts.byModel.accepted).toBeGreaterThan(50);
});
