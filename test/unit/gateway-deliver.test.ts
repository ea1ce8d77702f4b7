import { createServer, request as httpRequest, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { OutgoingResponse, type FrameSource } from '../../src/http/deliver.ts';
import { deliver } from '../../src/http/deliver.ts';
import { Relay } from '../../src/gateway/serve/relay.ts';
import { newRequestId } from '../../src/http/request-id.ts';
import type { UpstreamFrames } from '../../src/gateway/upstream/types.ts';
import type { SseFrame } from '../../src/wires/core/wire.ts';

const undo: (() => unknown)[] = [];
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step();
});

/** A source of the frames that are pushed; the last one ends the stream. */
function framesOf(readerMs = 60_000) {
  const waiting: ((next: Awaited<ReturnType<FrameSource['next']>>) => void)[] = [];
  const here: { text: string; isLast: boolean }[] = [];
  const state = { taken: 0, left: 0 };
  const stop = new AbortController();
  const frames: FrameSource = {
    next: () => {
      state.taken++;
      const next = here.shift();
      return next ? Promise.resolve(next) : new Promise((resolve) => waiting.push(resolve));
    },
    cancel: () => {
      state.left++;
      for (const resolve of waiting.splice(0)) resolve(undefined);
    },
    abortSignal: stop.signal,
    stallTimeoutMs: readerMs,
  };
  const push = (text: string, closed = false) => {
    const resolve = waiting.shift();
    if (resolve) resolve({ text, isLast: closed });
    else here.push({ text, isLast: closed });
  };
  return { frames, push, state, stop };
}

/** Sends a response to one request over a connection. */
async function served(body: FrameSource | string) {
  const faults: unknown[] = [];
  const server = createServer((_, outgoing) => {
    const gone = new AbortController();
    outgoing.once('close', () => outgoing.writableFinished || gone.abort());
    deliver(new OutgoingResponse(200, { 'x-a': 'b' }, body), {
      outgoing,
      disconnectSignal: gone.signal,
      onFault: (error) => faults.push(error),
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  undo.push(() => {
    server.closeAllConnections();
    server.close();
  });
  const clientRequest = httpRequest({ port: (server.address() as AddressInfo).port });
  const answer = new Promise<IncomingMessage>((resolve) => clientRequest.on('response', resolve));
  clientRequest.end();
  return { clientRequest, answer: await answer, faults };
}

const textOf = async (answer: AsyncIterable<Buffer>) => {
  let text = '';
  for await (const part of answer) text += part.toString();
  return text;
};

describe('a response written directly to Node', () => {
  it('is complete, with its length', async () => {
    const { answer, faults } = await served('häl');
    expect([answer.statusCode, answer.headers['x-a'], answer.headers['content-length']]).toEqual([
      200,
      'b',
      '4',
    ]);
    expect(await textOf(answer)).toBe('häl');
    expect(faults).toEqual([]);
  });

  it('is sent frame by frame, each at once', async () => {
    const { frames, push } = framesOf();
    push('one');
    const { answer, faults } = await served(frames);
    const seen: string[] = [];
    for await (const part of answer) {
      seen.push(String(part));
      if (seen.length < 3) push(`more ${seen.length}`, seen.length === 2);
    }
    expect(seen).toEqual(['one', 'more 1', 'more 2']);
    expect(faults).toEqual([]);
  });

  it('is canceled when the client disconnects', async () => {
    const { frames, push, state } = framesOf();
    push('one');
    const { clientRequest, answer } = await served(frames);
    await new Promise((resolve) => answer.once('data', resolve));
    answer.on('error', () => undefined);
    clientRequest.destroy();
    await expect.poll(() => state.left).toBe(1);
  });

  it('waits for a stalled client without taking more frames, and closes its connection in the end', async () => {
    const { frames, push, state } = framesOf(300);
    for (let n = 0; n < 200; n++) push('x'.repeat(256 * 1024));
    const { answer } = await served(frames);
    const gone = new Promise((resolve) => answer.once('error', resolve));
    answer.pause();
    await expect.poll(() => state.left).toBeGreaterThan(0);
    expect(state.taken).toBeLessThan(100);
    answer.resume();
    await gone;
  });

  it('writes the end even to a stalled client, once it is aborted', async () => {
    const { frames, push, state, stop } = framesOf();
    for (let n = 0; n < 100; n++) push('x'.repeat(256 * 1024));
    push('end', true);
    const { answer } = await served(frames);
    answer.pause();
    const stalled = async () => {
      const before = state.taken;
      await new Promise((resolve) => setTimeout(resolve, 50));
      return state.taken === before;
    };
    await expect.poll(stalled).toBe(true);
    stop.abort();
    await expect.poll(() => state.taken).toBe(101);
    expect((await textOf(answer)).endsWith('end')).toBe(true);
  });
});

describe('a response as a web stream', () => {
  const way = {
    outgoing: undefined,
    disconnectSignal: new AbortController().signal,
    onFault: () => undefined,
  };
  const streamOf = (frames: FrameSource) =>
    deliver(new OutgoingResponse(200, {}, frames), way).body as ReadableStream;

  it('is read at the pace of the client', async () => {
    const { frames, push, state } = framesOf();
    for (const text of ['a', 'b']) push(text);
    push('c', true);
    const reader = streamOf(frames).getReader();
    expect(state.taken).toBe(0);
    await reader.read();
    expect(state.taken).toBe(1);
    await reader.read();
    await reader.read();
    expect((await reader.read()).done).toBe(true);
    expect(state).toEqual({ taken: 3, left: 0 });
  });

  it('is canceled on cancel and on a read timeout', async () => {
    const cancelled = framesOf();
    await streamOf(cancelled.frames).cancel();
    expect(cancelled.state.left).toBe(1);
    const slow = framesOf(20);
    slow.push('a');
    const reader = streamOf(slow.frames).getReader();
    await reader.read();
    await expect.poll(() => slow.state.left).toBe(1);
    await expect(reader.read()).rejects.toThrow();
  });

  it('ends on its own once it is aborted', async () => {
    const { frames, push, state, stop } = framesOf();
    const stream = streamOf(frames);
    push('a');
    push('b', true);
    stop.abort();
    await expect.poll(() => state.taken).toBe(2);
    expect(await new Response(stream).text()).toBe('ab');
  });
});

describe('events that arrive together', () => {
  it('are sent together, up to a failure', async () => {
    const frame = (data: string): SseFrame => ({ event: undefined, data, raw: '' });
    const here = ['b', 'c', 'bad', 'd'].map(frame);
    const frames: UpstreamFrames = {
      takeReady: () => here.shift(),
      [Symbol.asyncIterator]: () => ({
        next: () => Promise.resolve({ value: frame('a'), done: false as const }),
      }),
    };
    const relay = new Relay(frames, {
      push: ({ data }) => ({
        text: data === 'bad' ? '' : data,
        events:
          data === 'bad' ? [{ type: 'failure', error: new Error('x') as never, isRetryable: false }] : [],
      }),
      finish: () => ({ text: '', events: [] }),
      end: () => '',
      fail: () => '',
    });
    expect(await relay.next()).toEqual({ text: 'abc', done: true });
    expect(here).toHaveLength(1);
  });

  it.each([
    ['which is whole', [{ type: 'finish', reason: 'stop' } as const]],
    [
      'which says that the provider broke off',
      [{ type: 'failure', error: new Error('x') as never, isRetryable: true } as const],
    ],
  ])('include an end that arrived with them, %s', async (_, events) => {
    const frame = (data: string): SseFrame => ({ event: undefined, data, raw: '' });
    const here = ['a', 'b', 'c'].map(frame);
    let finished = 0;
    const frames: UpstreamFrames = {
      takeReady: () => (here.length > 1 ? here.shift() : undefined),
      hasEnded: () => here.length === 0,
      [Symbol.asyncIterator]: () => ({
        next: () => Promise.resolve({ value: here.shift() ?? frame('none'), done: false as const }),
      }),
    };
    const relay = new Relay(frames, {
      push: ({ data }) => ({ text: data, events: [] }),
      finish() {
        finished++;
        return { text: '!', events };
      },
      end: () => '',
      fail: () => '',
    });
    expect(await relay.next()).toEqual({ text: 'ab', done: false });
    expect(finished).toBe(0);
    expect(await relay.next()).toEqual({ text: 'c!', done: true });
    expect([finished, relay.tally.isFinished, relay.tally.failure]).toEqual([
      1,
      events[0]?.type === 'finish',
      events[0]?.type === 'failure' ? events[0] : undefined,
    ]);
  });
});

describe('ids of requests', () => {
  it('are unique and sorted by time', async () => {
    const ids = Array.from({ length: 2000 }, newRequestId);
    expect(new Set(ids).size).toBe(2000);
    for (const id of ids) expect(id).toMatch(/^req_[0-9a-f]{32}$/);
    await new Promise((resolve) => setTimeout(resolve, 2));
    const later = newRequestId();
    expect(ids.every((id) => id.slice(0, 16) < later)).toBe(true);
  });
});
