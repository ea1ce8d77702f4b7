import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Fault } from '../../web/api/fault.ts';
import { followEvents } from '../../web/console/agents/follow-events.ts';

interface Line {
  readonly seq: number;
  readonly error?: string;
}

const lineOf = (seq: number): string => `${JSON.stringify({ seq })}\n`;

/** A body that ends after its chunks, or fails. */
function bodyOf(chunks: readonly string[], breaks: boolean): Response {
  const left = [...chunks];
  return new Response(
    new ReadableStream<Uint8Array>({
      pull(controller) {
        const chunk = left.shift();
        if (chunk !== undefined) controller.enqueue(new TextEncoder().encode(chunk));
        else if (breaks) controller.error(new TypeError('network error'));
        else controller.close();
      },
    }),
  );
}

/** Follows one body per connection. Connections after the last body get a finished stream. */
async function followed(bodies: readonly (() => Response)[], isOpen = true) {
  const reportedSeqs: number[] = [];
  const requestedAfter: number[] = [];
  const breaks: (string | undefined)[] = [];
  const pauses: number[] = [];
  const stop = new AbortController();
  const left = [...bodies];
  await followEvents<Line>({
    read: async (after) => {
      requestedAfter.push(after);
      const next = left.shift();
      if (!next) stop.abort();
      return next?.() ?? bodyOf([], false);
    },
    after: -1,
    isOpen,
    signal: stop.signal,
    onEvent: ({ seq }) => reportedSeqs.push(seq),
    onDisconnect: (fault) => breaks.push(fault?.message),
    pause: async (ms) => pauses.push(ms),
  });
  return { reportedSeqs, requestedAfter, breaks, pauses };
}

describe('following a stream of the agent plane', () => {
  it('resumes after the last received line when the connection fails', async () => {
    const { reportedSeqs, requestedAfter, breaks } = await followed([
      () => bodyOf([lineOf(0), lineOf(1)], true),
      () => bodyOf([lineOf(2)], false),
    ]);
    expect(reportedSeqs).toEqual([0, 1, 2]);
    expect(requestedAfter).toEqual([-1, 1, 2]);
    expect(breaks).toEqual(['The host does not answer. Is it still running?', undefined]);
  });

  it('waits longer after each failure, up to a limit', async () => {
    const { pauses } = await followed(Array.from({ length: 8 }, () => () => bodyOf([], true)));
    expect(pauses.slice(0, 8)).toEqual([500, 1000, 2000, 4000, 8000, 10_000, 10_000, 10_000]);
  });

  it('ends when a finished stream ends', async () => {
    const { reportedSeqs, requestedAfter } = await followed([() => bodyOf([lineOf(0)], false)], false);
    expect([reportedSeqs, requestedAfter]).toEqual([[0], [-1]]);
  });

  it('treats an error in the last line as a failed connection', async () => {
    const failure = '{"error":{"code":"internal","message":"The disk is full."}}\n';
    const { reportedSeqs, breaks } = await followed([
      () => bodyOf([lineOf(0), failure], false),
      () => bodyOf([lineOf(1)], false),
    ]);
    expect([reportedSeqs, breaks]).toEqual([
      [0, 1],
      ['The disk is full.', undefined],
    ]);
  });

  it('does not treat a failed step as a failed connection', async () => {
    const step = '{"seq":0,"type":"step_end","error":"budget"}\n';
    const { reportedSeqs, breaks } = await followed([() => bodyOf([step], false)]);
    expect([reportedSeqs, breaks]).toEqual([[0], []]);
  });

  it('stops when the host refuses the request', async () => {
    const refused = followed([
      () => {
        throw new Fault('There is no such task.', { status: 404 });
      },
    ]);
    await expect(refused).rejects.toThrow('There is no such task.');
  });

  it('yields each line once and in order, wherever connections fail and whatever is sent twice', async () => {
    const connection = fc.record({
      maxEvents: fc.integer({ min: 0, max: 6 }),
      breaks: fc.boolean(),
      cut: fc.nat(20),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(connection), fc.integer({ min: 1, max: 12 }), async (connections, count) => {
        const reportedSeqs: number[] = [];
        const stop = new AbortController();
        const left = [...connections];
        await followEvents<Line>({
          read: async (after) => {
            const { maxEvents, breaks, cut } = left.shift() ?? { maxEvents: count, breaks: false, cut: 0 };
            // A line may be sent again.
            const from = Math.max(0, after);
            const text = Array.from({ length: Math.min(maxEvents, count - from) }, (_, at) =>
              lineOf(from + at),
            ).join('');
            return bodyOf([text.slice(0, cut), text.slice(cut)], breaks);
          },
          after: -1,
          isOpen: true,
          signal: stop.signal,
          onEvent: ({ seq }) => {
            reportedSeqs.push(seq);
            if (seq === count - 1) stop.abort();
          },
          onDisconnect: () => undefined,
          pause: () => Promise.resolve(),
        });
        expect(reportedSeqs).toEqual(Array.from({ length: count }, (_, seq) => seq));
      }),
    );
  });
});
