/** The scheduler against a simulated GPU whose tokens depend on every token before them. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type GenerateRequest,
  greedySampling,
  type PromptProgress,
  type TokenLogprob,
} from '../../src/engine/types.ts';
import { long, request, run, text, turns, world } from '../support/scheduler-world.ts';
import { outputAlone, newSequence, read, scoreAlone } from '../support/simulated-runner.ts';
import { rounds } from '../support/tier.ts';
import { ToyConstraint, toyGrammar } from '../support/toy-constraint.ts';

describe('prefix reuse', () => {
  it('a repeated prompt computes only its last token', async () => {
    const { answer, runner } = world();
    const one = request({ prompt: run(3, 100) });
    const first = await answer(one);
    expect(first.end.usage.cached_tokens).toBe(0);
    const steps = runner.steps.length;
    const again = await answer(one);
    expect(again.ids).toEqual(first.ids);
    expect(again.end.usage).toEqual({ ...first.end.usage, cached_tokens: 99 });
    expect(runner.steps[steps]).toMatchObject({ promptTokens: 1, copies: 1 });
  });

  it('the progress of a prompt is reported from its cached part to its end', async () => {
    const { answer } = world({ stepTokens: 32 });
    const one = request({ prompt: run(3, 100), progress: true });
    const first = await answer(one);
    expect(first.progress.map(({ processed }) => processed)).toEqual([0, 32, 64, 96, 100]);
    expect(first.progress.map(({ cached }) => cached)).toEqual([0, 0, 0, 0, 0]);
    const times = first.progress.map(({ ms }) => ms);
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    const again = await answer(one);
    expect(again.progress).toMatchObject([
      { processed: 99, cached: 99, ms: 0 },
      { processed: 100, cached: 99 },
    ]);
    expect((await answer(request({ prompt: run(3, 100) }))).progress).toEqual([]);
  });

  it('a growing chat computes only what is new', async () => {
    const { answer } = world();
    let prompt = run(5, 50);
    for (let turn = 0; turn < 5; turn++) {
      const { ids, end } = await answer(request({ prompt, sampling: { ...greedySampling, seed: turn } }));
      expect(ids).toEqual(outputAlone(request({ prompt, sampling: { ...greedySampling, seed: turn } })));
      if (turn > 0) {
        // All but what was added; the last output token was sampled but never computed.
        expect(end.usage.cached_tokens).toBeGreaterThanOrEqual(prompt.length - 31);
        expect(end.usage.cached_tokens).toBeLessThan(prompt.length);
      }
      prompt = [...prompt, ...ids, ...run(turn, 30)];
    }
  });

  it('concurrent requests share what the first of them computes', async () => {
    const { answer, runner } = world({ slots: 8, stepTokens: 256 });
    const prompt = run(9, 200);
    const requests = Array.from({ length: 8 }, (_, seed) =>
      request({ prompt: [...prompt, ...run(seed, 10)], sampling: { ...greedySampling, seed } }),
    );
    const answers = await Promise.all(requests.map(answer));
    for (const [index, one] of requests.entries()) expect(answers[index]!.ids).toEqual(outputAlone(one));
    const computed = runner.steps.reduce((sum, { promptTokens }) => sum + promptTokens, 0);
    expect(computed).toBeLessThan(210 + 7 * (10 + 32));
    expect(answers[7]!.end.usage.cached_tokens).toBeGreaterThanOrEqual(192);
  });

  it('what a canceled request computed is cached; what it only sampled is not', async () => {
    const { add, answer, scheduler } = world();
    const one = long(4, 60, run(4, 40));
    const sequence = add(one);
    const seen: number[] = [];
    await expect(async () => {
      for await (const event of sequence.events()) {
        if (event.type === 'text') seen.push(...event.ids);
        if (seen.length >= 20) scheduler.cancel(sequence, new Error('enough'));
      }
    }).rejects.toThrow('enough');
    const after = request({ prompt: [...one.prompt, ...outputAlone(one).slice(0, 40), 97], maxTokens: 8 });
    const { ids, end } = await answer(after);
    expect(ids).toEqual(outputAlone(after));
    expect(end.usage.cached_tokens).toBeGreaterThanOrEqual(40 + 19);
    expect(end.usage.cached_tokens).toBeLessThan(40 + 24);
  });
});

describe('prefix reuse of models whose layers keep states', () => {
  it('a growing chat computes only what is new', async () => {
    const { answer } = world({ retainedStates: 4 });
    const first = long(1, 30, run(1, 50));
    const { ids } = await answer(first);
    expect(ids).toEqual(outputAlone(first));
    const next = long(2, 10, [...first.prompt, ...ids, ...run(7, 9)]);
    const { ids: more, end } = await answer(next);
    expect(more).toEqual(outputAlone(next));
    // All but the token sampled last, unless a following step had already read it.
    expect(end.usage.cached_tokens).toBeGreaterThanOrEqual(79);
  });

  it('continues from the position where two texts diverged', async () => {
    const { answer } = world({ retainedStates: 8, pages: 200, stepTokens: 128 });
    const common = run(3, 100);
    const cached: number[] = [];
    for (const seed of [1, 2, 3, 4]) {
      const one = long(seed, 5, [...common, ...run(40 + seed, 70)]);
      const { ids, end } = await answer(one);
      expect(ids).toEqual(outputAlone(one));
      cached.push(end.usage.cached_tokens);
    }
    expect(cached).toEqual([0, 0, 96, 96]);
  });

  it('gets no drafts, and without retained states computes every prompt', async () => {
    const { answer, counts } = world({ retainedStates: 0, speculation: 'always' });
    const one = long(1, 60, run(1, 50));
    for (let n = 0; n < 2; n++) {
      const { ids, end } = await answer(one);
      expect(ids).toEqual(outputAlone(one));
      expect(end.usage.cached_tokens).toBe(0);
    }
    expect(counts.drafted).toBe(0);
  });
});

describe('too few pages', () => {
  it('preempts the youngest, which resumes first; each output is the same as alone', async () => {
    const { answer, counts, scheduler } = world({ pages: 8, slots: 4 });
    // Each needs five pages in the end; two sequences do not fit at once.
    const requests = Array.from({ length: 6 }, (_, seed) => long(seed, 130));
    const ends: number[] = [];
    const answers = await Promise.all(
      requests.map(async (one, index) => {
        const got = await answer(one);
        ends.push(index);
        return got;
      }),
    );
    for (const [index, one] of requests.entries()) expect(answers[index]!.ids).toEqual(outputAlone(one));
    expect(counts.preemptions).toBeGreaterThan(0);
    expect(ends).toEqual([0, 1, 2, 3, 4, 5]);
    expect(scheduler.pages.free + scheduler.pages.cached).toBe(8);
    // None was spared its prompt by its own first attempt: only the first tokens are shared.
    for (const { end } of answers) expect(end.usage.cached_tokens).toBeLessThan(3);
  });

  it('preempts no sequence while another only waits for its last token', async () => {
    const { answer, counts } = world({ pages: 5, slots: 2 });
    // When the first needs its third page, the second has three and has sampled all its tokens.
    const requests = [long(1, 60, run(1, 20)), long(2, 43, run(2, 33))];
    const answers = await Promise.all(requests.map(answer));
    for (const [index, one] of requests.entries()) expect(answers[index]!.ids).toEqual(outputAlone(one));
    expect(counts.preemptions).toBe(0);
  });

  it('penalties count the whole output after a preemption', async () => {
    const { answer, counts } = world({ pages: 8, slots: 4 });
    const requests = Array.from({ length: 4 }, (_, seed) => ({
      ...long(seed, 130),
      sampling: { ...greedySampling, seed, frequencyPenalty: 0.5 },
    }));
    const answers = await Promise.all(requests.map(answer));
    for (const [index, one] of requests.entries()) expect(answers[index]!.ids).toEqual(outputAlone(one));
    expect(counts.preemptions).toBeGreaterThan(0);
  });

  it('a single sequence may fill every page, including cached ones', async () => {
    const { answer, scheduler } = world({ pages: 4, slots: 2 });
    await answer(long(1, 60));
    const one = long(2, 128 - 20);
    expect((await answer(one)).ids).toEqual(outputAlone(one));
    expect((await answer(one)).end.usage.cached_tokens).toBe(19);
    expect(scheduler.pages).toMatchObject({ total: 4 });
  });
});

describe('fairness', () => {
  it('a long prompt delays running outputs by no more than its share of a step', async () => {
    const { runner, answer, add } = world({ slots: 4, stepTokens: 512, pages: 300 });
    runner.cost = (rows, prompt) => 4 + rows + 5 * prompt;
    // So that the scheduler knows the time of a prompt token.
    await answer(request({ prompt: run(1, 100) }));
    const running = [1, 2, 3].map((seed) => add(long(seed, 45)));
    const firsts = running.map(async (one) => {
      for await (const event of one.events()) if (event.type === 'text') return;
    });
    await Promise.all(firsts);
    const before = runner.steps.length;
    const late = read(add(request({ prompt: run(50, 4000), maxTokens: 5 })));
    await Promise.all(running.map(read));
    await late;
    const shared = runner.steps.slice(before).filter(({ decoding }) => decoding.size === 3);
    expect(shared.length).toBeGreaterThan(20);
    expect(shared.filter(({ promptTokens }) => promptTokens > 0).length).toBeGreaterThan(20);
    for (const { promptTokens } of shared) expect(5 * promptTokens).toBeLessThanOrEqual(250);
    // While all three are generating, none is left out.
    const last = runner.steps.findLastIndex(({ decoding }) => decoding.size === 3);
    for (const { decoding } of runner.steps.slice(before, last)) expect(decoding.size).toBe(3);
    // When no other sequence decodes, a prompt takes larger steps.
    expect(Math.max(...runner.steps.map(({ promptTokens }) => promptTokens))).toBeGreaterThan(100);
  });

  it('first come, first served: a small request does not overtake one that waits for pages', async () => {
    const { answer, counts } = world({ pages: 8, slots: 3 });
    const order: string[] = [];
    const named = async (name: string, one: GenerateRequest) => {
      await answer(one);
      order.push(name);
    };
    await Promise.all([
      named('running', long(1, 90, run(1, 100))),
      named('large', long(2, 4, run(2, 200))),
      named('small', long(3, 4, run(3, 5))),
    ]);
    expect(order).toEqual(['running', 'large', 'small']);
    // It did not start what it could not finish.
    expect(counts.preemptions).toBe(0);
  });

  it('a single sequence decodes one token in a step, with two steps in flight', async () => {
    const { runner, answer } = world();
    const one = long(8, 50);
    await answer(one);
    // The prompt in one step, then one token each; one more step is in flight when the last token is read.
    expect(runner.steps.length).toBe(50);
    expect(runner.steps.slice(1).every(({ decoding }) => decoding.size === 1)).toBe(true);
  });
});

describe('speculative decoding', () => {
  /** Its output is repetitive. */
  const repetitive = (): GenerateRequest => request({ prompt: run(2, 60), maxTokens: 120, ignoreEnd: true });

  it('gives the same tokens in fewer steps', async () => {
    const plain = world();
    const expected = await plain.answer(repetitive());
    const { runner, answer, counts } = world({ speculation: 'always' });
    const got = await answer(repetitive());
    expect(got.ids).toEqual(expected.ids);
    expect(got.end.usage).toEqual(expected.end.usage);
    expect(runner.steps.length).toBeLessThan(plain.runner.steps.length * 0.8);
    expect(counts.accepted).toBeGreaterThan(20);
    expect(counts.drafted).toBeGreaterThanOrEqual(counts.accepted);
    // Every output token is a sample of some step or an accepted draft.
    expect(got.ids.length).toBe(120);
  });

  it('drafts when verification is cheap, and stops when it does not pay off', async () => {
    const cheap = world({ speculation: 'auto' });
    cheap.runner.cost = (rows, prompt) => 20 + 0.1 * rows + prompt;
    const dear = world({ speculation: 'auto' });
    dear.runner.cost = (rows, prompt) => 20 * rows + prompt;
    const expected = (await world().answer(repetitive())).ids;
    for (const { answer } of [cheap, dear]) {
      for (let n = 0; n < 4; n++) expect((await answer(repetitive())).ids).toEqual(expected);
    }
    const verifications = ({ runner }: typeof cheap) =>
      runner.steps.filter(({ decoding }) => [...decoding.values()].some((drafts) => drafts > 0)).length;
    expect(cheap.counts.accepted).toBeGreaterThan(100);
    expect(verifications(dear)).toBeLessThan(20);
    expect(cheap.runner.steps.length).toBeLessThan(0.8 * dear.runner.steps.length);
  });

  it('does not draft for a request with penalties, or with speculation off', async () => {
    const { answer, counts } = world({ speculation: 'always' });
    await answer({ ...repetitive(), sampling: { ...greedySampling, presencePenalty: 0.5 } });
    expect(counts.drafted).toBe(0);
    const off = world({ speculation: 'off' });
    await off.answer(repetitive());
    expect(off.counts.drafted).toBe(0);
  });

  it('rejected drafts never get into the prefix cache', async () => {
    const { answer, counts } = world({ speculation: 'always' });
    let prompt = run(2, 60);
    for (let turn = 0; turn < 6; turn++) {
      const one = request({ prompt, maxTokens: 50, sampling: { ...greedySampling, seed: turn } });
      const { ids } = await answer(one);
      expect(ids).toEqual(outputAlone(one));
      prompt = [...prompt, ...ids, ...run(turn, 3)];
    }
    expect(counts.drafted).toBeGreaterThan(counts.accepted);
  });
});

describe('random requests', () => {
  const prompts = [run(1, 5), run(1, 64), run(1, 70), [...run(1, 40), ...run(2, 30)], run(3, 90)];
  const seldom = (some: fc.Arbitrary<number>) =>
    fc.oneof({ weight: 4, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: some });
  const anyRequest = fc.record({
    prompt: fc.nat(prompts.length - 1),
    // Small values alone would never fill the pages.
    cut: fc.noBias(fc.integer({ min: 1, max: 90 })),
    maxTokens: fc.noBias(fc.integer({ min: 1, max: 100 })),
    seed: fc.nat(5),
    penalty: fc.boolean(),
    stop: seldom(fc.integer({ min: 0, max: 143 })),
    cancelAfter: seldom(fc.nat(40)),
    pause: fc.nat(2),
    ignoreEnd: fc.boolean(),
    /** Event-loop turns that its constraint takes. */
    constraint: seldom(fc.nat(6)),
    logprobs: seldom(fc.nat(3)),
    scoresPrompt: fc.boolean(),
    progress: fc.boolean(),
    /** Event-loop turns that its reader takes for an event. */
    reading: seldom(fc.integer({ min: 1, max: 4 })),
  });
  const anyWorld = fc.record({
    pages: fc.integer({ min: 6, max: 12 }),
    slots: fc.integer({ min: 2, max: 6 }),
    stepTokens: fc.integer({ min: 30, max: 64 }),
    speculation: fc.constantFrom('auto' as const, 'always' as const, 'off' as const),
    reader: fc.record({ unreadTokens: fc.integer({ min: 1, max: 30 }) }),
    /** Number of retained layer states, for models that have states. */
    retainedStates: fc.constantFrom(undefined, undefined, 0, 2, 8),
    separatesDecodeRows: fc.boolean(),
    draft: fc.constantFrom(
      undefined,
      { wrong: 0 },
      { wrong: 0.3, pages: 4 },
      { wrong: 1 },
      { wrong: 0.1, context: 70 },
    ),
  });

  it('get the same tokens as alone, with any other requests and any outcomes', async () => {
    let preemptions = 0;
    let accepted = 0;
    let cached = 0;
    let stalledReaders = 0;
    let constraintCalls = 0;
    let scored = 0;
    await fc.assert(
      fc.asyncProperty(
        anyWorld,
        fc.array(anyRequest, { minLength: 6, maxLength: 20 }),
        async (options, list) => {
          const { runner, scheduler, counts, failures, add } = world(options);
          const jobs: Promise<void>[] = [];
          for (const { prompt, cut, maxTokens, seed, penalty, stop, ...rest } of list) {
            const { cancelAfter, pause, ignoreEnd, constraint, logprobs, scoresPrompt, progress, reading } =
              rest;
            const grammar = constraint === undefined ? undefined : toyGrammar(seed);
            const follower = grammar && new ToyConstraint(grammar, constraint);
            const promptLogprobs = logprobs !== undefined && scoresPrompt;
            const one = request({
              prompt: prompts[prompt]!.slice(0, cut),
              maxTokens: promptLogprobs && maxTokens < 20 ? 0 : maxTokens,
              ignoreEnd,
              sampling: { ...greedySampling, seed, frequencyPenalty: penalty ? 1 : 0 },
              stop: stop === undefined ? [] : [String.fromCharCode(...text(stop, Math.floor(stop / 12)))],
              ...(logprobs === undefined ? {} : { logprobs, promptLogprobs }),
              progress,
            });
            const sequence = add(follower ? { ...one, constraint: follower } : one);
            const job = async () => {
              const ids: number[] = [];
              const reported: TokenLogprob[] = [];
              let events = 0;
              let lastProgress: PromptProgress | undefined;
              const alone = newSequence(one, runner);
              const wanted = outputAlone(one, grammar);
              for (const id of wanted) alone.acceptToken(id, 0);
              if (one.maxTokens === 0) alone.finishAfterPrompt(0);
              const expected = await read(alone);
              const scores = scoreAlone([...one.prompt, ...wanted], logprobs ?? 0);
              let prompted = promptLogprobs ? 0 : 1;
              try {
                for await (const event of sequence.events()) {
                  if (event.type === 'prompt') {
                    expect(progress && events === 0).toBe(true);
                    expect(event.cached).toBeLessThanOrEqual(event.processed);
                    lastProgress = event;
                    continue;
                  }
                  // The progress of a prompt before the first text agrees with the final usage.
                  if (events === 0)
                    expect(lastProgress?.processed).toBe(progress ? one.prompt.length : undefined);
                  if (sequence.phase === 'awaiting_reader') stalledReaders += 1;
                  if (reading !== undefined) await turns(reading);
                  if (event.type === 'text') {
                    ids.push(...event.ids);
                    reported.push(...(event.logprobs ?? []));
                    if (events === 0 && promptLogprobs) {
                      expect(event.prompt).toEqual(scores.slice(0, one.prompt.length));
                      prompted += 1;
                      scored += one.prompt.length;
                    } else {
                      expect(event.prompt).toBeUndefined();
                    }
                  } else {
                    cached += event.usage.cached_tokens;
                    if (lastProgress) expect(lastProgress.cached).toBe(event.usage.cached_tokens);
                    expect(event.usage.cached_tokens).toBeLessThan(one.prompt.length);
                    if (promptLogprobs) expect(event.usage.cached_tokens).toBe(0);
                    expect(event.usage.completion_tokens).toBe(ids.length);
                    expect(event.finishReason).toBe(expected.end.finishReason);
                    expect(event.stopText).toBe(expected.end.stopText);
                    expect(ids).toEqual(expected.ids);
                    expect(prompted).toBe(1);
                  }
                  if (events++ === cancelAfter) scheduler.cancel(sequence, new Error('cut'));
                }
              } catch (error) {
                expect((error as Error).message).toBe('cut');
              }
              expect(ids).toEqual(expected.ids.slice(0, ids.length));
              const after = scores.slice(one.prompt.length, one.prompt.length + ids.length);
              expect(reported).toEqual(logprobs === undefined ? [] : after);
              if (!follower) return;
              constraintCalls += follower.calls;
              expect(follower.closed).toBe(1);
              expect(wanted.slice(0, follower.accepted.length)).toEqual(follower.accepted);
            };
            jobs.push(job());
            await turns(pause);
          }
          await Promise.all(jobs);
          await scheduler.whenIdle();
          expect(failures).toEqual([]);
          expect(scheduler).toMatchObject({ running: 0, waiting: 0, stalledReaders: 0 });
          const { total, free, cached: kept } = scheduler.pages;
          expect(free + kept).toBe(total);
          expect(runner.steps.every(({ decoding }) => decoding.size <= options.slots)).toBe(true);
          preemptions += counts.preemptions;
          accepted += counts.accepted;
        },
      ),
      { numRuns: rounds(300, 100) },
    );
    // The random worlds must have covered all of it.
    expect(preemptions).toBeGreaterThan(rounds(50, 16));
    expect(accepted).toBeGreaterThan(500);
    expect(cached).toBeGreaterThan(1000);
    expect(stalledReaders).toBeGreaterThan(500);
    expect(constraintCalls).toBeGreaterThan(1000);
    expect(scored).toBeGreaterThan(1000);
  });
});
