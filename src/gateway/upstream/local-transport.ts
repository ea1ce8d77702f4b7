import { raceAbort } from '../../util/race-abort.ts';
import { isRecord, type Json } from '../../util/json.ts';
import { HttpError } from '../../http/error.ts';
import { classifyFailure } from '../../wires/chat/failure.ts';
import type { AnswerBatches, Backend, BackendRequest } from '../../wires/core/backend.ts';
import { errorObject } from '../../wires/core/error.ts';
import { faultInStream } from '../../wires/core/provider-faults.ts';
import { UpstreamFailure } from '../../wires/core/upstream-failure.ts';
import type { UpstreamBody } from '../../wires/core/wire.ts';
import { Deadlines, type TimeLimits } from './deadlines.ts';
import type { ProviderFailures } from './provider-failures.ts';
import type { UpstreamRequest, UpstreamReply } from './types.ts';

export interface LocalContext {
  readonly limits: TimeLimits;
  readonly failures: ProviderFailures;
}

/**
 * Sends a request to the resident model of this process by a function call, with the same limits as other providers.
 * Rejects with `UpstreamFailure`, or with the reason of the signal.
 */
export async function sendLocal(
  backend: Backend,
  {
    body,
    stream,
    signal,
    traceparent,
    client,
  }: Pick<UpstreamRequest, 'body' | 'stream' | 'signal' | 'traceparent' | 'client'>,
  { limits, failures }: LocalContext,
): Promise<UpstreamReply> {
  const ownAbort = new AbortController();
  const anySignal = AbortSignal.any([signal, ownAbort.signal]);
  const deadlines = new Deadlines(limits, (limit) =>
    ownAbort.abort(
      limit === 'totalMs' ? failures.totalTimeout(limits.totalMs) : failures.idleTimeout(limits.idleMs),
    ),
  );
  const request: BackendRequest = {
    body: toMembers(body),
    stream,
    traceparent,
    client,
  };
  try {
    if (body.path === '/embeddings') {
      const answer = await raceAbort(backend.embed(request, anySignal), anySignal);
      deadlines.clear();
      return { ...localReply, text: () => Promise.resolve(JSON.stringify(answer)) };
    }
    const wire = body.path === '/completions' ? 'completions' : 'chat';
    const { events, resident } = await raceAbort(backend.answer(wire, request, anySignal), anySignal);
    const cut = () => {
      ownAbort.abort(failures.canceled());
      deadlines.clear();
      events.return().catch(() => undefined);
    };
    return {
      ...localReply,
      local: { events: withDeadlines(events, { deadlines, anySignal, failures }), resident },
      cut,
    };
  } catch (error) {
    deadlines.clear();
    anySignal.throwIfAborted();
    throw error instanceof HttpError ? toUpstreamFailure(error) : failures.unreachable(error);
  }
}

/** Converts an error of the host. A stalled reader is not reported as a slow provider. */
function toUpstreamFailure(error: HttpError): UpstreamFailure {
  const { status, code, headers } = error;
  const errorBody = errorObject(error);
  const upstreamFault =
    code === 'reader_stalled'
      ? faultInStream(errorBody)
      : classifyFailure(status, JSON.stringify({ error: errorBody }), headers);
  return new UpstreamFailure(upstreamFault, { cause: error });
}

function toMembers({ value, text }: UpstreamBody): Json {
  const members: unknown = value ?? JSON.parse(text);
  return isRecord(members) ? members : {};
}

/** Yields the events within the time limits. Throws the same errors as `sendLocal`. */
async function* withDeadlines(
  events: AnswerBatches,
  {
    deadlines,
    anySignal,
    failures,
  }: {
    readonly deadlines: Deadlines;
    readonly anySignal: AbortSignal;
    readonly failures: ProviderFailures;
  },
): AnswerBatches {
  try {
    for (;;) {
      deadlines.startWaiting();
      const next = await raceAbort(events.next(), anySignal);
      deadlines.activity();
      deadlines.stopWaiting();
      if (next.done) return;
      yield next.value;
    }
  } catch (error) {
    anySignal.throwIfAborted();
    throw error instanceof HttpError ? toUpstreamFailure(error) : failures.connectionLost(error);
  } finally {
    deadlines.clear();
    events.return().catch(() => undefined);
  }
}

const noBody = () => {
  throw new Error('an answer of the resident model has no body to read');
};
const localReply: UpstreamReply = {
  status: 200,
  headers: {},
  text: noBody,
  frames: noBody,
  cut: () => undefined,
};
