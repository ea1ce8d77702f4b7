import type { Candidate } from '../catalog/types.ts';
import type { Usage } from '../../wires/core/types.ts';
import { jsonAnswer } from './answers.ts';
import { OutgoingResponse } from '../../http/deliver.ts';
import type { UpstreamReply } from '../upstream/types.ts';
import { inputOnlyCost, zeroCost } from './receipt.ts';
import { tryCandidates, markServing, type RequestContext } from './request-context.ts';

/** A provider's whole answer, translated to the caller's wire. */
export interface WholeAnswer {
  readonly text: string;
  readonly usage: Usage;
  /** Whether the answer may be given to other requests. */
  readonly isCacheable: boolean;
}

/**
 * Requests a buffered answer and settles its hold, also when the caller disconnects before the answer is ready.
 * @param read rejects with `UpstreamFailure` when the body cannot be read
 */
export async function answerBuffered(
  context: RequestContext,
  read: (reply: UpstreamReply, candidate: Candidate) => Promise<WholeAnswer>,
): Promise<OutgoingResponse> {
  const { incoming, hold } = context;
  const { receipt } = incoming;
  try {
    const result = await tryCandidates(context, async (reply, attempt) => ({
      attempt,
      whole: await read(reply, attempt.candidate),
    }));
    if (result instanceof OutgoingResponse) return result;
    const { attempt, whole } = result;
    const { candidate, candidateIndex } = attempt;
    hold.markFirstByte();
    markServing(context, attempt);
    receipt.cost = hold.cappedCost(candidate, whole.usage);
    const answer = jsonAnswer(receipt, 200, whole.text);
    const stored = hold.storesAnswer
      ? { answer: { status: 200, headers: answer.headers, body: whole.text } }
      : {};
    const outcome = incoming.disconnectSignal.aborted ? 'client_gone' : 'completed';
    const cost = receipt.cost;
    let charged: bigint;
    try {
      charged = await hold.settle(candidate, candidateIndex, whole.usage, {
        status: 200,
        outcome,
        ...stored,
      });
    } catch (error) {
      // The caller gets no answer and owes nothing. The settlement may still have been committed; `release` then
      // returns the charged amount.
      receipt.cost = zeroCost;
      charged = await hold.release(candidate, candidateIndex, { status: 503, outcome: 'failed' });
      if (charged === 0n) throw error;
    }
    if (whole.isCacheable) context.cacheSlot?.put(candidate, cost, whole.text);
    if (charged === cost.total) return answer;
    receipt.cost = inputOnlyCost(charged);
    return jsonAnswer(receipt, 200, whole.text);
  } finally {
    context.finish();
  }
}
