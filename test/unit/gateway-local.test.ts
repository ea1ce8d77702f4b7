import { describe, expect, it, vi } from 'vitest';
import { ProviderFaults } from '../../src/gateway/upstream/faults.ts';
import { askLocally } from '../../src/gateway/upstream/local.ts';
import type { UpstreamReply } from '../../src/gateway/upstream/types.ts';
import { HttpError } from '../../src/http/error.ts';
import type { AnswerEvent } from '../../src/wires/core/answer.ts';
import type { AnswerBatches, Backend, BackendAnswer } from '../../src/wires/core/backend.ts';

const faults = new ProviderFaults('local');
const body = { path: '/chat/completions', headers: {}, text: '{"messages":[]}' };
const text = (said: string): AnswerEvent[] => [{ type: 'text', text: said }];

/** Asks a model that answers so. */
function ask(
  answer: (signal: AbortSignal) => Promise<AnswerBatches> | AnswerBatches,
  { idleMs = 10_000, signal = new AbortController().signal } = {},
): Promise<UpstreamReply> {
  const backend: Backend = {
    answer: async (_wire, _request, given): Promise<BackendAnswer> => ({
      events: await answer(given),
      resident: { fingerprint: 'fp' },
    }),
    embed: () => Promise.resolve({}),
  };
  const limits = { totalMs: 60_000, idleMs };
  return askLocally(backend, { body, stream: true, signal, traceparent: undefined }, { limits, faults });
}

async function read(reply: UpstreamReply): Promise<string> {
  let said = '';
  for await (const batch of reply.local?.events ?? [])
    for (const event of batch) if (event.type === 'text') said += event.text;
  return said;
}

/** Says `a` and waits, and counts how often it was left. */
function stuck() {
  const left = vi.fn();
  async function* answer(): AnswerBatches {
    try {
      yield text('a');
      await new Promise(() => undefined);
    } finally {
      left();
    }
  }
  return { left, answer };
}

describe('the model of this process, asked by a function call', () => {
  it.each([
    { status: 429, code: 'queue_full', headers: { 'retry-after': '1' }, shown: 429, again: true },
    { status: 503, code: 'device_lost', headers: { 'retry-after': '1' }, shown: 502, again: true },
    { status: 400, code: 'constraint_failed', headers: {}, shown: 400, again: false },
    // The caller's own doing, and not a provider that is late.
    { status: 408, code: 'reader_stalled', headers: {}, shown: 400, again: false },
  ])(
    'a refusal with $status between events means what it means before them',
    async ({ status, code, headers, shown, again }) => {
      const refusal = new HttpError(status, code, 'Not now.', { headers });
      const early = ask(() => Promise.reject(refusal));
      const late = ask(async function* () {
        yield text('a');
        throw refusal;
      }).then(read);
      for (const outcome of [early, late])
        await expect(outcome).rejects.toMatchObject({
          name: 'UpstreamFailure',
          error: { status: shown, message: expect.stringContaining('Not now.') as string },
          again,
          unwell: status === 503,
          ...(again ? { retryAfterMs: 1000 } : {}),
        });
    },
  );

  it('is left when the answer is no longer wanted, and told why', async () => {
    const { left, answer } = stuck();
    const leaving = new AbortController();
    const reply = await ask(answer, { signal: leaving.signal });
    const events = reply.local?.events as AnswerBatches;
    await events.next();
    const next = events.next();
    leaving.abort(new Error('enough'));
    await expect(next).rejects.toThrow('enough');
    // It does not notice; whoever waits for its next event has been told.
    expect(left).not.toHaveBeenCalled();
  });

  it('an answer that nobody begins to read is left', async () => {
    async function* answer(): AnswerBatches {
      yield text('a');
    }
    const events = answer();
    const left = vi.spyOn(events, 'return');
    (await ask(() => events)).cut();
    expect(left).toHaveBeenCalledOnce();
  });

  it('silence ends it, before the first event and between two', async () => {
    const silent = {
      error: { status: 504, message: "The provider 'local' sent nothing for 0.02 seconds. Try again later." },
      again: true,
    };
    const limits = { idleMs: 20 };
    await expect(ask(() => new Promise(() => undefined), limits)).rejects.toMatchObject(silent);
    await expect(ask(stuck().answer, limits).then(read)).rejects.toMatchObject(silent);
  });

  it('a reader that takes its time is not silence', async () => {
    async function* answer(): AnswerBatches {
      yield text('a');
      yield text('b');
    }
    const reply = await ask(answer, { idleMs: 20 });
    const events = reply.local?.events as AnswerBatches;
    expect((await events.next()).value).toEqual(text('a'));
    await new Promise((resolve) => setTimeout(resolve, 60));
    expect(await read(reply)).toBe('b');
  });
});
