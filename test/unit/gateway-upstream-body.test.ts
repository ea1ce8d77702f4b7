import { describe, expect, it } from 'vitest';
import { AnswerBody } from '../../src/gateway/upstream/answer-body.ts';
import { ProviderFailures } from '../../src/gateway/upstream/provider-failures.ts';

function bodyOf() {
  const limits = { totalMs: 60_000, idleMs: 60_000, maxAnswerBytes: 10_000, maxEventChars: 1000 };
  const source = { pause: () => undefined, resume: () => undefined, abort: () => undefined };
  const body = new AnswerBody(limits, new ProviderFailures('mock'), source, () => undefined);
  return { body, say: (text: string) => body.push(Buffer.from(text)) };
}

describe('frames of an answer', () => {
  it('have ended when the provider ended and all of them were read', async () => {
    const { body, say } = bodyOf();
    const frames = body.frames();
    const reader = frames[Symbol.asyncIterator]();
    say('data: a\n\ndata: b\n\n');
    expect((await reader.next()).value).toMatchObject({ data: 'a' });
    body.end();
    expect(frames.hasEnded?.()).toBe(false);
    expect(frames.takeReady?.()).toMatchObject({ data: 'b' });
    expect(frames.hasEnded?.()).toBe(true);
    expect(await reader.next()).toEqual({ value: undefined, done: true });
  });

  it('also end without a final empty line', async () => {
    const { body, say } = bodyOf();
    const frames = body.frames();
    say('data: a\n\ndata: b\n');
    body.end();
    const reader = frames[Symbol.asyncIterator]();
    expect((await reader.next()).value).toMatchObject({ data: 'a' });
    expect(frames.hasEnded?.()).toBe(false);
    expect(frames.takeReady?.()).toMatchObject({ data: 'b' });
    expect(frames.hasEnded?.()).toBe(true);
  });

  it('have not ended when the connection broke or a frame was invalid', async () => {
    for (const breaks of [
      ({ body }: ReturnType<typeof bodyOf>) => body.fail(new Error('broke off')),
      ({ say }: ReturnType<typeof bodyOf>) => say(`data: ${'b'.repeat(2000)}`),
    ]) {
      const one = bodyOf();
      const frames = one.body.frames();
      one.say('data: a\n\n');
      breaks(one);
      expect(frames.takeReady?.()).toMatchObject({ data: 'a' });
      expect(frames.hasEnded?.()).toBe(false);
      await expect(frames[Symbol.asyncIterator]().next()).rejects.toThrow();
    }
  });
});
