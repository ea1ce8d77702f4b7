import { unlessAborted } from '../../util/abort.ts';
import { isRecord, type Json } from '../../util/json.ts';
import { HttpError } from '../../http/error.ts';
import { failureOf } from '../../wires/chat/failure.ts';
import type { AnswerBatches, Backend, BackendRequest } from '../../wires/core/backend.ts';
import { errorObject } from '../../wires/core/error.ts';
import { faultInStream } from '../../wires/core/provider-faults.ts';
import { UpstreamFailure } from '../../wires/core/upstream-failure.ts';
import type { UpstreamBody } from '../../wires/core/wire.ts';
import { Deadlines, type TimeLimits } from './deadlines.ts';
import type { ProviderFaults } from './faults.ts';
import type { Sending, UpstreamReply } from './types.ts';

export interface LocalContext {
  readonly limits: TimeLimits;
  readonly faults: ProviderFaults;
}

/**
 * Sends a request to the resident model of this process by a function call, with the same limits as other providers.
 * Rejects with `UpstreamFailure`, or with the reason of the signal.
 */
export async function askLocally(
  backend: Backend,
  { body, stream, signal, traceparent }: Pick<Sending, 'body' | 'stream' | 'signal' | 'traceparent'>,
  { limits, faults }: LocalContext,
): Promise<UpstreamReply> {
  const leaving = new AbortController();
  const either = AbortSignal.any([signal, leaving.signal]);
  const deadlines = new Deadlines(limits, (what) =>
    leaving.abort(what === 'totalMs' ? faults.tooLong(limits.totalMs) : faults.silent(limits.idleMs)),
  );
  const request: BackendRequest = {
    body: membersOf(body),
    stream,
    traceparent,
  };
  try {
    if (body.path === '/embeddings') {
      const answer = await unlessAborted(backend.embed(request, either), either);
      deadlines.stop();
      return { ...localReply, text: () => Promise.resolve(JSON.stringify(answer)) };
    }
    const wire = body.path === '/completions' ? 'completions' : 'chat';
    const { events, resident } = await unlessAborted(backend.answer(wire, request, either), either);
    const cut = () => {
      leaving.abort(faults.cut());
      deadlines.stop();
      events.return().catch(() => undefined);
    };
    return {
      ...localReply,
      local: { events: within(events, { deadlines, either, faults }), resident },
      cut,
    };
  } catch (error) {
    deadlines.stop();
    either.throwIfAborted();
    throw error instanceof HttpError ? refused(error) : faults.unreachable(error);
  }
}

/** Converts an error of the host. A stalled reader is not reported as a slow provider. */
function refused(error: HttpError): UpstreamFailure {
  const { status, code, headers } = error;
  const shown = errorObject(error);
  const fault =
    code === 'reader_stalled'
      ? faultInStream(shown)
      : failureOf(status, JSON.stringify({ error: shown }), headers);
  return new UpstreamFailure(fault, { cause: error });
}

function membersOf({ value, text }: UpstreamBody): Json {
  const members: unknown = value ?? JSON.parse(text);
  return isRecord(members) ? members : {};
}

/** Yields the events within the time limits. Throws the same errors as `sendLocal`. */
async function* within(
  events: AnswerBatches,
  {
    deadlines,
    either,
    faults,
  }: {
    readonly deadlines: Deadlines;
    readonly either: AbortSignal;
    readonly faults: ProviderFaults;
  },
): AnswerBatches {
  try {
    for (;;) {
      deadlines.wait();
      const next = await unlessAborted(events.next(), either);
      deadlines.news();
      deadlines.rest();
      if (next.done) return;
      yield next.value;
    }
  } catch (error) {
    either.throwIfAborted();
    throw error instanceof HttpError ? refused(error) : faults.brokeOff(error);
  } finally {
    deadlines.stop();
    events.return().catch(() => undefined);
  }
}

const unread = () => {
  throw new Error('an answer of the resident model has no body to read');
};
const localReply: UpstreamReply = {
  status: 200,
  headers: {},
  text: unread,
  frames: unread,
  cut: () => undefined,
};
