import type { Candidate } from '../catalog/types.ts';
import type { Usage } from '../../wires/core/types.ts';
import { jsonAnswer } from './answers.ts';
import { Answer } from '../../http/deliver.ts';
import type { UpstreamReply } from '../upstream/types.ts';
import { estimatedOf, noCost } from './receipt.ts';
import { served, serves, type Work } from './work.ts';

/** A provider's whole answer, translated to the caller's wire. */
export interface Whole {
  readonly text: string;
  readonly usage: Usage;
}

/**
 * Requests a buffered answer and settles its hold, also when the caller disconnects before the answer is ready.
 * @param read rejects with `UpstreamFailure` when the body cannot be read
 */
export async function buffered(
  work: Work,
  read: (reply: UpstreamReply, candidate: Candidate) => Promise<Whole>,
): Promise<Answer> {
  const { asked, purchase } = work;
  const { receipt } = asked;
  try {
    const got = await served(work, async (reply, attempt) => ({
      attempt,
      whole: await read(reply, attempt.candidate),
    }));
    if (got instanceof Answer) return got;
    const { attempt, whole } = got;
    const { candidate, place } = attempt;
    purchase.began();
    serves(work, attempt);
    receipt.cost = purchase.costOf(candidate, whole.usage);
    const answer = jsonAnswer(receipt, 200, whole.text);
    const kept = purchase.keeps ? { answer: { status: 200, headers: answer.headers, body: whole.text } } : {};
    const outcome = asked.gone.aborted ? 'client_gone' : 'completed';
    const cost = receipt.cost;
    let charged: bigint;
    try {
      charged = await purchase.settle(candidate, place, whole.usage, { status: 200, outcome, ...kept });
    } catch (error) {
      // The caller gets no answer and owes nothing. The settlement may still have been committed; `release` then
      // returns the charged amount.
      receipt.cost = noCost;
      charged = await purchase.release(candidate, place, { status: 503, outcome: 'failed' });
      if (charged === 0n) throw error;
    }
    if (charged === cost.total) return answer;
    receipt.cost = estimatedOf(charged);
    return jsonAnswer(receipt, 200, whole.text);
  } finally {
    work.over();
  }
}
