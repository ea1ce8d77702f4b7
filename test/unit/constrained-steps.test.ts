/**
 * Constraints with the simulated GPU: when masks are requested, which tokens constraints receive, and how failures
 * are handled.
 */
import { describe, expect, it } from 'vitest';
import { maskWords } from '../../kernels/sample.ts';
import { type Constraint, EngineError, greedySampling } from '../../src/engine/types.ts';
import { long, request, run, turns, world } from '../support/scheduler-world.ts';
import { outputAlone, read } from '../support/simulated-runner.ts';
import { ToyConstraint, toyGrammar } from '../support/toy-constraint.ts';

const words = maskWords(259);
const only = (...ids: number[]): Uint32Array => {
  const mask = new Uint32Array(words);
  for (const id of ids) mask[id >> 5] = (mask[id >> 5] as number) | (1 << (id & 31));
  return mask;
};

/** A constraint whose behavior is scripted. */
class Scripted implements Constraint {
  readonly accepted: number[][] = [];
  closed = 0;
  answer: (call: number) => Promise<Uint32Array | undefined>;
  constructor(answer: (call: number) => Promise<Uint32Array | undefined>) {
    this.answer = answer;
  }
  next(accepted: readonly number[]): Promise<Uint32Array | undefined> {
    this.accepted.push([...accepted]);
    return this.answer(this.accepted.length);
  }
  close(): void {
    this.closed += 1;
  }
}

const failure = async (answer: Promise<unknown>): Promise<EngineError> => {
  const error = await answer.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(EngineError);
  return error as EngineError;
};

describe('a constrained sequence', () => {
  it('is sampled with its masks; each mask is requested once, with the previous token', async () => {
    const { answer, runner } = world();
    const constraint = new Scripted((call) => Promise.resolve(only(96 + call)));
    const { ids, end } = await answer({ ...long(1, 20), constraint });
    expect(ids).toEqual(Array.from({ length: 20 }, (_, n) => 97 + n));
    expect(end.finishReason).toBe('length');
    expect(constraint.accepted).toEqual([[], ...ids.slice(0, -1).map((id) => [id])]);
    expect(constraint.closed).toBe(1);
    // Constraints add no step.
    expect(runner.steps.length).toBeLessThanOrEqual(21);
  });

  it('runs its next forward pass while its constraint computes the mask', async () => {
    const { add, runner } = world();
    const forwards: number[] = [];
    const forward = runner.forward.bind(runner);
    runner.forward = (step) => {
      forwards.push(step.dims.tokens);
      forward(step);
    };
    let think: (() => void) | undefined;
    const constraint = new Scripted(async () => {
      await new Promise<void>((resolve) => (think = resolve));
      return undefined;
    });
    const sequence = add({ ...long(1, 30), constraint });
    await turns(10);
    // The prompt; its sampling waits.
    expect(forwards).toEqual([20]);
    for (let token = 1; token < 10; token++) {
      think?.();
      await turns(10);
      expect(sequence.outputTokens).toBe(token);
      expect(constraint.accepted.length).toBe(token + 1);
      expect(forwards.length).toBe(token + 1);
    }
  });

  it('may stop at the end token, which is not passed to the constraint', async () => {
    const { answer } = world();
    const constraint = new Scripted((call) => Promise.resolve(only(call < 4 ? 97 : 257)));
    const { ids, end } = await answer({ ...request(), constraint });
    expect(ids).toEqual([97, 97, 97, 257]);
    expect(end.finishReason).toBe('stop');
    expect(constraint).toMatchObject({ closed: 1, accepted: [[], [97], [97], [97]] });
  });

  it('runs together with constrained and free sequences, and each output is the same as alone', async () => {
    const { answer, counts } = world({ slots: 6, speculation: 'always' });
    const plain = [1, 2, 3].map((seed) => long(seed, 60));
    const bound = [4, 5, 6].map((seed) => long(seed, 60));
    const constraints = bound.map((_, n) => new ToyConstraint(toyGrammar(n), n * 3));
    const answers = await Promise.all([
      ...plain.map(answer),
      ...bound.map((one, n) => answer({ ...one, constraint: constraints[n]! })),
    ]);
    for (const [n, one] of plain.entries()) expect(answers[n]!.ids).toEqual(outputAlone(one));
    for (const [n, one] of bound.entries()) {
      expect(answers[3 + n]!.ids).toEqual(outputAlone(one, toyGrammar(n)));
      expect(constraints[n]).toMatchObject({ calls: 60, closed: 1 });
    }
    expect(counts.drafted).toBeGreaterThan(0);
  });

  it('constraints of one step compute their masks concurrently', async () => {
    const { add } = world();
    let pendingMasks = 0;
    let maxPending = 0;
    const think = async () => {
      pendingMasks += 1;
      maxPending = Math.max(maxPending, pendingMasks);
      await turns(5);
      pendingMasks -= 1;
      return undefined;
    };
    await Promise.all(
      [1, 2, 3, 4].map((seed) => read(add({ ...long(seed, 10), constraint: new Scripted(think) }))),
    );
    expect(maxPending).toBe(4);
  });

  it('gets no drafts', async () => {
    const { answer, counts } = world({ speculation: 'always' });
    const constraint = new Scripted(() => Promise.resolve(undefined));
    await answer({ ...long(2, 100, run(2, 60)), constraint });
    expect(counts.drafted).toBe(0);
  });

  it('the mask of a preempted sequence is not requested again', async () => {
    const { add, counts } = world({ pages: 8, slots: 4 });
    const all = Array.from({ length: 4 }, (_, seed) => {
      const constraint = new ToyConstraint(toyGrammar(seed), 1);
      return { one: long(seed, 130), seed, constraint };
    });
    const answers = await Promise.all(all.map(({ one, constraint }) => read(add({ ...one, constraint }))));
    expect(counts.preemptions).toBeGreaterThan(0);
    for (const [n, { one, seed, constraint }] of all.entries()) {
      const { ids } = answers[n]!;
      expect(ids).toEqual(outputAlone(one, toyGrammar(seed)));
      expect(constraint).toMatchObject({ closed: 1, accepted: ids.slice(0, -1) });
    }
    expect(all.reduce((sum, { constraint }) => sum + constraint.calls, 0)).toBe(4 * 130);
  });
});

describe('a constraint that fails', () => {
  const others = [
    long(1, 40),
    { ...long(2, 40), sampling: { ...greedySampling, seed: 2, presencePenalty: 1 } },
  ];

  /** Runs it together with others, which must not be affected. */
  async function failing(constraint: Scripted): Promise<EngineError> {
    const { add, scheduler, failures } = world();
    const running = others.map((one) => read(add(one)));
    const error = await failure(read(add({ ...long(3, 40), constraint })));
    for (const [n, one] of others.entries()) expect((await running[n]!).ids).toEqual(outputAlone(one));
    expect(constraint.closed).toBe(1);
    await scheduler.whenIdle();
    expect(scheduler).toMatchObject({ running: 0, waiting: 0, stalledReaders: 0 });
    expect(failures).toEqual([]);
    return error;
  }

  it('by rejecting ends only its own sequence', async () => {
    for (const at of [1, 2, 9]) {
      const error = await failing(
        new Scripted((call) =>
          call < at ? Promise.resolve(undefined) : Promise.reject(new Error('no more')),
        ),
      );
      expect(error).toMatchObject({ code: 'constraint_failed', message: expect.stringContaining('no more') });
    }
  });

  it('by throwing synchronously', async () => {
    const error = await failing(
      new Scripted(() => {
        throw new TypeError('not a function');
      }),
    );
    expect(error).toMatchObject({
      code: 'constraint_failed',
      message: expect.stringContaining('not a function'),
    });
  });

  it('by rejecting keeps the cause', async () => {
    const reason = new TypeError('no more');
    expect((await failing(new Scripted(() => Promise.reject(reason)))).cause).toBe(reason);
  });

  it('with an EngineError keeps that error', async () => {
    const own = new EngineError('constraint_failed', 'too slow');
    expect(await failing(new Scripted(() => Promise.reject(own)))).toBe(own);
  });

  it('by allowing no token reports it', async () => {
    // Bits beyond the vocabulary have no meaning.
    for (const empty of [new Uint32Array(words), only(259, 287)]) {
      const error = await failing(new Scripted((call) => Promise.resolve(call < 5 ? undefined : empty)));
      expect(error).toMatchObject({
        code: 'constraint_failed',
        message: 'the grammar allows no token that the model can produce after 4 output tokens',
      });
    }
  });

  it('by a mask of the wrong size reports both sizes', async () => {
    const { message } = await failing(new Scripted(() => Promise.resolve(new Uint32Array(words + 1))));
    expect(message).toContain('10 words');
    expect(message).toContain('259 tokens need 9');
  });

  it('by throwing in close does not change the outcome', async () => {
    const { add } = world();
    const constraint = new Scripted(() => Promise.resolve(undefined));
    constraint.close = () => {
      throw new Error('cannot be closed');
    };
    expect((await read(add({ ...long(1, 9), constraint }))).ids).toEqual(outputAlone(long(1, 9)));
  });
});

describe('while a constraint computes its mask', () => {
  const forever = () => new Scripted(() => new Promise(() => {}));

  it('its sequence can be canceled, and the others continue', async () => {
    const { add, scheduler } = world();
    const constraint = forever();
    const pendingMasks = add({ ...long(1, 40), constraint });
    const other = read(add(long(2, 40)));
    await turns(20);
    scheduler.cancel(pendingMasks, new Error('enough'));
    expect(constraint.closed).toBe(1);
    expect((await other).ids).toEqual(outputAlone(long(2, 40)));
    await expect(read(pendingMasks)).rejects.toThrow('enough');
    expect(scheduler.pages.free + scheduler.pages.cached).toBe(64);
  });

  it('the scheduler can be stopped: the waiting step is sampled, because the device must be idle afterward', async () => {
    const { add, scheduler, runner } = world();
    const constraints = [forever(), forever()];
    const sequences = constraints.map((constraint, n) => add({ ...long(n, 40), constraint }));
    await turns(20);
    expect(runner.steps.length).toBe(0);
    scheduler.stop(new Error('the end'));
    await scheduler.whenIdle();
    expect(runner.steps.length).toBe(1);
    for (const constraint of constraints) expect(constraint.closed).toBe(1);
    for (const sequence of sequences) await expect(read(sequence)).rejects.toThrow('the end');
  });

  it('a constraint that exceeds its time budget: its sequence is preempted until the mask is ready, and the mask is requested only once', async () => {
    for (const slots of [1, 4]) {
      const { add, scheduler } = world({ slots, constraint: { budgetMs: 0, regainMsPerToken: 0 } });
      const answers: (() => void)[] = [];
      const grammar = toyGrammar(5);
      const accepted: number[] = [];
      const constraint = new Scripted(async () => {
        accepted.push(...constraint.accepted.at(-1)!);
        await new Promise<void>((resolve) => answers.push(resolve));
        return grammar(accepted);
      });
      const slow = add({ ...long(1, 40), logprobs: 1, constraint });
      await expect.poll(() => slow.phase).toBe('awaiting_mask');
      expect(scheduler).toMatchObject({ running: 0, waiting: 1, stalledReaders: 0 });
      expect(scheduler.pages.free + scheduler.pages.cached).toBe(64);
      for (const seed of [2, 3])
        expect((await read(add(long(seed, 40)))).ids).toEqual(outputAlone(long(seed, 40)));
      const reading = read(slow);
      while (slow.phase !== 'done') {
        if (slow.phase === 'awaiting_mask') answers.shift()?.();
        await new Promise((resolve) => setTimeout(resolve));
      }
      expect((await reading).ids).toEqual(outputAlone(long(1, 40), grammar));
      expect(constraint).toMatchObject({ closed: 1, accepted: { length: 40 } });
      expect(slow.preemptionEpoch).toBe(40);
    }
  });

  it('a sequence preempted this way can be canceled, stopped or failed', async () => {
    const { add, scheduler } = world({ constraint: { budgetMs: 0, regainMsPerToken: 0 } });
    let fail: ((error: Error) => void) | undefined;
    const failing = new Scripted(() => new Promise((_, reject) => (fail = reject)));
    const constraints = [forever(), failing, forever()];
    const all = constraints.map((constraint, n) => add({ ...long(n, 40), constraint }));
    await expect
      .poll(() => all.map(({ phase }) => phase))
      .toEqual(['awaiting_mask', 'awaiting_mask', 'awaiting_mask']);
    scheduler.cancel(all[0]!, new Error('enough'));
    await expect(read(all[0]!)).rejects.toThrow('enough');
    fail?.(new Error('no more'));
    await expect(read(all[1]!)).rejects.toThrow('no more');
    expect(scheduler.waiting).toBe(1);
    scheduler.stop(new Error('the end'));
    await scheduler.whenIdle();
    await expect(read(all[2]!)).rejects.toThrow('the end');
    for (const constraint of constraints) expect(constraint.closed).toBe(1);
    expect(scheduler.waiting).toBe(0);
  });

  it('a failed step fails every sequence, and is reported once', async () => {
    const { add, failures, runner } = world();
    const constraint = new Scripted(() => Promise.resolve(undefined));
    const draw = runner.sample.bind(runner);
    runner.sample = async (step) => {
      await draw(step);
      throw new Error('refused');
    };
    const error = await failure(read(add({ ...long(1, 40), constraint })));
    expect(error.code).toBe('device_lost');
    expect(constraint.closed).toBe(1);
    await expect.poll(() => failures).toEqual(['refused']);
  });

  it('the mask of a previous sequence is not applied to the next one in the slot', async () => {
    const { add, scheduler } = world({ slots: 1 });
    const constraint = forever();
    const first = add({ ...long(1, 40), constraint });
    const next = read(add({ ...long(2, 40), sampling: { ...greedySampling, seed: 2, frequencyPenalty: 1 } }));
    await turns(20);
    scheduler.cancel(first, new Error('enough'));
    const expected = outputAlone({
      ...long(2, 40),
      sampling: { ...greedySampling, seed: 2, frequencyPenalty: 1 },
    });
    expect((await next).ids).toEqual(expected);
  });
});
