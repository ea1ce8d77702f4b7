import { describe, expect, it } from 'vitest';
import { SequenceEmbedder } from '../../src/engine/scheduling/sequence-embedder.ts';
import { greedySampling } from '../../src/engine/types.ts';
import { long, run, turns, world } from '../support/scheduler-world.ts';
import { newSequence, outputAlone, read, stateAlone } from '../support/simulated-runner.ts';

/** A scheduler with an embedder on it. */
function embedding(options: Parameters<typeof world>[0] = {}) {
  const created = world(options);
  const { slots } = created.runner.memory.capacity;
  const embedder = new SequenceEmbedder(created.scheduler, {
    slots,
    createSequence: (prompt) =>
      newSequence(
        { prompt, maxTokens: 0, sampling: greedySampling, stop: [], hiddenState: true },
        created.runner,
      ),
  });
  return { ...created, embedder };
}

const texts = (count: number, length = 9) =>
  Array.from({ length: count }, (_, n) => run(n * 7, 1 + ((n * 13) % length)));

describe('a model that generates embeds texts', () => {
  it('with the state of the last token of each, in order', async () => {
    const { embedder, scheduler } = embedding();
    const inputs = [...texts(23), run(3, 200), [97]];
    expect(await embedder.embed(inputs)).toEqual(inputs.map(stateAlone));
    expect(await embedder.embed([])).toEqual([]);
    expect(scheduler).toMatchObject({ running: 0, waiting: 0 });
  });

  it.each([
    ['drafts', { speculation: 'always' as const }],
    ['a draft model', { speculation: 'always' as const, draft: { wrong: 0.3 } }],
    ['layer states', { retainedStates: 4 }],
    ['few pages, so that sequences are preempted', { pages: 9 }],
    ['separate rows of answers', { separatesDecodeRows: true, speculation: 'always' as const }],
  ])('beside texts that it generates, which stay the same: %s', async (_, options) => {
    const { embedder, add, counts } = embedding(options);
    const requests = [1, 2, 3].map((seed) => long(seed, 90));
    const answers = requests.map((one) => read(add(one)));
    const inputs = [...texts(40, 60), run(3, 150)];
    expect(await embedder.embed(inputs)).toEqual(inputs.map(stateAlone));
    for (const [n, one] of requests.entries()) expect((await answers[n])?.ids).toEqual(outputAlone(one));
    if ('pages' in options) expect(counts.preemptions).toBeGreaterThan(0);
  });

  it('without waiting for a generation to end', async () => {
    const { embedder, add, scheduler } = embedding();
    const answer = add(long(1, 2000));
    const answered = read(answer);
    await embedder.embed(texts(30));
    expect(answer.phase).toBe('decode');
    scheduler.cancel(answer, new Error('enough'));
    await expect(answered).rejects.toThrow('enough');
  });

  it('and leaves a slot to generations, also among many texts', async () => {
    const { embedder, answer } = embedding({ slots: 2 });
    let embedded = false;
    const all = embedder.embed(texts(300)).then(() => (embedded = true));
    await turns(3);
    const one = long(5, 10);
    expect((await answer(one)).ids).toEqual(outputAlone(one));
    expect(embedded).toBe(false);
    await all;
  });

  it('in turn: one text does not wait for a thousand', async () => {
    const { embedder } = embedding({ slots: 2 });
    let finished = false;
    const many = embedder.embed(texts(200)).then(() => (finished = true));
    expect(await embedder.embed([run(1, 4)])).toEqual([stateAlone(run(1, 4))]);
    expect(finished).toBe(false);
    await many;
  });

  it('without the prefix cache: it neither reads nor fills it', async () => {
    const { embedder, answer, scheduler, runner } = embedding();
    const prompt = run(1, 160);
    await answer(long(1, 4, prompt));
    const { cached } = scheduler.pages;
    expect(cached).toBeGreaterThan(0);
    const before = runner.steps.reduce((sum, { promptTokens }) => sum + promptTokens, 0);
    expect(await embedder.embed([prompt, run(50, 160)])).toEqual([
      stateAlone(prompt),
      stateAlone(run(50, 160)),
    ]);
    const computed = runner.steps.reduce((sum, { promptTokens }) => sum + promptTokens, 0) - before;
    expect(computed).toBe(320);
    expect(scheduler.pages.cached).toBe(cached);
  });

  it('until the client leaves: its other texts are not computed', async () => {
    const { embedder, runner, scheduler } = embedding({ slots: 2 });
    const controller = new AbortController();
    const left = embedder.embed(texts(500), controller.signal);
    const stays = embedder.embed(texts(3));
    await turns(4);
    controller.abort(new Error('gone'));
    await expect(left).rejects.toThrow('gone');
    expect(await stays).toEqual(texts(3).map(stateAlone));
    expect(runner.steps.length).toBeLessThan(30);
    expect(embedder.waiting + scheduler.running + scheduler.waiting).toBe(0);
    await expect(embedder.embed(texts(1), controller.signal)).rejects.toThrow('gone');
  });

  it('until it is stopped, with the reason', async () => {
    const { embedder, scheduler } = embedding({ slots: 2 });
    const requests = [embedder.embed(texts(50)), embedder.embed(texts(2))];
    await turns(2);
    scheduler.stop(new Error('the device is gone'));
    embedder.stop(new Error('the device is gone'));
    for (const one of requests) await expect(one).rejects.toThrow('the device is gone');
    await expect(embedder.embed([[97]])).rejects.toThrow('the device is gone');
  });
});
