import type { Candidate, Usage } from '../catalog/types.ts';
import type { Attempt } from '../upstream/types.ts';
import { type Answer, jsonAnswer } from './answers.ts';
import { estimatedOf, noCost } from './receipt.ts';
import { failed, send, serves, type Work } from './work.ts';

/** A provider's whole body, in the caller's words. */
export interface Whole {
  readonly text: string;
  readonly usage: Usage;
}

/**
 * Asks for an answer in one piece and settles it; also when the caller left meanwhile.
 * @param read rejects with `UpstreamFailure` where the body is none
 */
export async function buffered(
  work: Work,
  read: (text: string, candidate: Candidate) => Whole,
): Promise<Answer> {
  const { parts, asked, purchase } = work;
  const { receipt } = asked;
  let last: Attempt | undefined;
  try {
    let served: { readonly attempt: Attempt; readonly whole: Whole };
    try {
      served = await parts.router.run(
        purchase.candidates,
        async (attempt) => {
          last = attempt;
          const reply = await send(work, attempt);
          return { attempt, whole: read(await reply.text(), attempt.candidate) };
        },
        work.givenUp,
      );
    } catch (error) {
      return await failed(work, last, error);
    }
    const { attempt, whole } = served;
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
      // The caller gets no answer, so it owes nothing for it; but it may have been written all the same.
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
