import type { Candidate } from '../catalog/types.ts';
import type { AnswerEvent } from '../../wires/core/answer.ts';
import { WireError } from '../../wires/core/error.ts';
import type { Usage } from '../../wires/core/types.ts';
import type { StreamReceipt } from '../../wires/core/wire.ts';
import { errorAnswer, jsonAnswer, streamHeaders } from './answers.ts';
import { OutgoingResponse } from '../../http/deliver.ts';
import type { Attempt, UpstreamReply } from '../upstream/types.ts';
import { inputOnlyCost, zeroCost } from './receipt.ts';
import { internalError, tryCandidates, markServing, type RequestContext } from './request-context.ts';
import { spanResultOf } from './span.ts';

/** A provider's whole answer, translated to the caller's wire. */
export interface WholeAnswer extends WrittenAnswer {
  readonly usage: Usage;
  /** Whether the answer may be given to other requests. */
  readonly isCacheable: boolean;
  /** What hooks check, and how an answer with other texts is written. */
  readonly checked?: {
    readonly events: readonly AnswerEvent[];
    readonly write: (events: readonly AnswerEvent[]) => WrittenAnswer;
  };
}

interface WrittenAnswer {
  /** A JSON body, or the frames of a stream. */
  readonly text: string;
  /** The end of a stream: as it is sent, and as it is stored for other requests. */
  readonly end?: (receipt: StreamReceipt) => { readonly sent: string; readonly stored: string };
}

/**
 * Requests an answer, reads all of it and settles its hold, also when the caller disconnects before the answer is ready.
 * @param read rejects with `UpstreamFailure` when the body cannot be read
 */
export async function answerBuffered(
  context: RequestContext,
  read: (reply: UpstreamReply, candidate: Candidate, attempt: Attempt) => Promise<WholeAnswer>,
): Promise<OutgoingResponse> {
  const { incoming, hold } = context;
  const { receipt } = incoming;
  try {
    const result = await tryCandidates(context, async (reply, attempt) => ({
      attempt,
      whole: await read(reply, attempt.candidate, attempt),
    }));
    if (result instanceof OutgoingResponse) return result;
    const { attempt, whole } = result;
    const { candidate, candidateIndex } = attempt;
    hold.markFirstByte();
    markServing(context, attempt);
    const checked = await checkByHooks(context, candidate, whole);
    const cost = (receipt.cost = hold.cappedCost(candidate, whole.usage));
    const { answer, stored } = writeAnswer(context, checked.written);
    const outcome = incoming.disconnectSignal.aborted
      ? 'client_gone'
      : answer.status === 200
        ? 'completed'
        : 'failed';
    let charged: bigint;
    try {
      charged = await hold.settle(candidate, candidateIndex, whole.usage, {
        status: answer.status,
        outcome,
        ...(hold.storesAnswer ? { answer } : {}),
      });
    } catch (error) {
      // The caller gets no answer and owes nothing. The settlement may still have been committed; `release` then
      // returns the charged amount.
      receipt.cost = zeroCost;
      charged = await hold.release(candidate, candidateIndex, { status: 503, outcome: 'failed' });
      if (charged === 0n) throw error;
    }
    if (checked.isCacheable && stored !== undefined) context.cacheSlot?.put(candidate, cost, stored);
    if (checked.written instanceof WireError) incoming.span?.end(spanResultOf(checked.written));
    // A stream is written once.
    if (charged === cost.total || whole.end) return answer;
    receipt.cost = inputOnlyCost(charged);
    return writeAnswer(context, checked.written).answer;
  } finally {
    context.finish();
  }
}

interface HookedAnswer {
  /** The answer, or why the caller does not get it. */
  readonly written: WrittenAnswer | WireError;
  readonly isCacheable: boolean;
}

/** What the hooks leave of an answer. It is charged in any case, because the provider made it. */
async function checkByHooks(
  { checkAnswer, services, incoming }: RequestContext,
  candidate: Candidate,
  whole: WholeAnswer,
): Promise<HookedAnswer> {
  const { checked, isCacheable, text } = whole;
  if (!checkAnswer || !checked) return { written: whole, isCacheable };
  try {
    const { events, isUnchecked } = await checkAnswer(candidate, { events: checked.events, text });
    return {
      written: events ? checked.write(events) : whole,
      isCacheable: isCacheable && !isUnchecked,
    };
  } catch (error) {
    const { requestId } = incoming.receipt;
    if (!(error instanceof WireError)) services.onFault(requestId, error);
    const written = error instanceof WireError ? error : internalError(requestId, error);
    return { written, isCacheable: false };
  }
}

/** The response with its receipt, and its text without one, which other requests may get. */
function writeAnswer(
  { incoming: { receipt }, errorBody }: RequestContext,
  written: WrittenAnswer | WireError,
): { readonly answer: OutgoingResponse<string>; readonly stored: string | undefined } {
  if (written instanceof WireError)
    return { answer: errorAnswer(receipt, written, errorBody), stored: undefined };
  const { text, end } = written;
  if (!end) return { answer: jsonAnswer(receipt, 200, text), stored: text };
  const { requestId, effectiveModel, reason, cost = zeroCost } = receipt;
  const { sent, stored } = end({ requestId, effectiveModel, reason, cost });
  // The header of a stream names no cost.
  const headers = streamHeaders({ ...receipt, cost: undefined });
  return { answer: new OutgoingResponse(200, headers, text + sent), stored: text + stored };
}
