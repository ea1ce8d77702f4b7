/**
 * The scheduler when a step's rows are read from the file first: one step at a time, in order, with failing reads.
 */
import { describe, expect, it } from 'vitest';
import { feedbackToken, type StepInput } from '../../src/engine/execution/step.ts';
import { EngineError } from '../../src/engine/types.ts';
import { long, run, turns, world } from '../support/scheduler-world.ts';
import { outputAlone, read } from '../support/simulated-runner.ts';
import { ToyConstraint, toyGrammar } from '../support/toy-constraint.ts';

const unreadable = () => new EngineError('model_unreadable', 'a file: rows cannot be read: gone');

/**
 * A world whose runner reads rows before a step, which takes some turns of the event loop.
 * @param options `fails`: whether the read of the n-th step fails
 */
function streaming(options: Parameters<typeof world>[0] & { fails?: (step: number) => boolean } = {}) {
  const { fails = () => false } = options;
  const made = world(options);
  const { runner } = made;
  const forward = runner.forward.bind(runner);
  const sample = runner.sample.bind(runner);
  const state = { steps: 0, reading: 0, maxReading: 0, held: undefined as Promise<void> | undefined };
  const readRows = async (step: StepInput): Promise<void> => {
    const ids = step.tokenIds();
    expect(ids).not.toContain(feedbackToken);
    const n = state.steps++;
    state.maxReading = Math.max(state.maxReading, ++state.reading);
    await turns(n % 3);
    await state.held;
    state.reading -= 1;
    // No other step was composed meanwhile.
    expect(step.tokenIds()).toEqual(ids);
    if (fails(n)) throw unreadable();
  };
  Object.assign(runner, {
    needsTokenIds: true,
    submit: async (step: StepInput) => {
      await readRows(step);
      forward(step);
      return await sample(step);
    },
    forward: async (step: StepInput) => {
      await readRows(step);
      forward(step);
    },
    sample: (step: StepInput) => {
      expect(state.reading, 'drawn before its forward pass').toBe(0);
      return sample(step);
    },
  });
  return { ...made, state };
}

describe('when the token ids of a step must be known on the CPU', () => {
  it('several sequences get the same output as alone, one step at a time', async () => {
    const { answer, state } = streaming();
    const requests = [1, 2, 3, 4, 5, 6].map((seed) => long(seed, 20 + 3 * seed, run(seed, 5 + 17 * seed)));
    const answers = await Promise.all(requests.map((one) => answer(one)));
    for (const [index, { ids }] of answers.entries())
      expect(ids).toEqual(outputAlone(requests[index] as (typeof requests)[number]));
    expect(state.maxReading).toBe(1);
  });

  it('so do constrained sequences among others, also with drafts', async () => {
    const { answer, state } = streaming({ speculation: 'always' });
    const requests = [1, 2, 3, 4].map((seed) => long(seed, 25));
    const answers = await Promise.all(
      requests.map((one, index) => {
        const constraint = index % 2 === 0 ? { constraint: new ToyConstraint(toyGrammar(index), index) } : {};
        return answer({ ...one, ...constraint });
      }),
    );
    for (const [index, { ids }] of answers.entries()) {
      const alone = requests[index] as (typeof requests)[number];
      expect(ids).toEqual(outputAlone(alone, index % 2 === 0 ? toyGrammar(index) : undefined));
    }
    expect(state.maxReading).toBe(1);
  });

  it('a client that leaves during a read does not affect others', async () => {
    const { scheduler, add, state } = streaming();
    let release = () => {};
    const stays = add(long(1, 12));
    const goes = add(long(2, 12));
    const end = read(stays);
    const gone = read(goes).catch((error: unknown) => error);
    await turns(3);
    state.held = new Promise<void>((resolve) => (release = resolve));
    await turns(5);
    scheduler.cancel(goes, new Error('the client went'));
    const late = add(long(3, 12));
    await turns(5);
    state.held = undefined;
    release();
    expect(String(await gone)).toMatch(/client went/);
    expect((await end).ids).toEqual(outputAlone(long(1, 12)));
    expect((await read(late)).ids).toEqual(outputAlone(long(3, 12)));
  });
});

describe('a failed read', () => {
  it('ends running sequences with its reason; later ones are computed correctly from the start', async () => {
    const failing = { on: false };
    const { answer, failures, scheduler } = streaming({ fails: () => failing.on });
    // A cached prefix.
    const prompt = run(1, 90);
    await answer(long(1, 5, prompt));
    failing.on = true;
    const both = await Promise.allSettled([
      answer(long(1, 9, [...prompt, ...run(4, 40)])),
      answer(long(2, 9)),
    ]);
    for (const one of both) {
      expect(one).toMatchObject({ status: 'rejected', reason: { code: 'model_unreadable' } });
    }
    expect(scheduler.pages.cached).toBe(0);
    failing.on = false;
    const again = long(1, 9, [...prompt, ...run(4, 40)]);
    expect((await answer(again)).ids).toEqual(outputAlone(again));
    expect(failures).toEqual([]);
    expect(scheduler.pages.free).toBe(scheduler.pages.total - scheduler.pages.cached);
  });

  it('during generation, also of constrained sequences: never gives a wrong token', async () => {
    const { answer, failures } = streaming({ fails: (step) => step % 13 === 12, slots: 3, pages: 24 });
    const requests = Array.from({ length: 12 }, (_, seed) => long(seed, 10 + seed, run(seed % 3, 40)));
    let failed = 0;
    for (const [index, one] of requests.entries()) {
      const grammar = index % 3 === 0 ? toyGrammar(index) : undefined;
      const constraint = grammar ? { constraint: new ToyConstraint(grammar, 1) } : {};
      const [ended] = await Promise.allSettled([answer({ ...one, ...constraint })]);
      if (ended.status === 'fulfilled') expect(ended.value.ids).toEqual(outputAlone(one, grammar));
      else {
        expect(ended.reason).toMatchObject({ code: 'model_unreadable' });
        failed += 1;
      }
    }
    expect(failed).toBeGreaterThan(0);
    expect(failed).toBeLessThan(12);
    expect(failures).toEqual([]);
  });
});
