import { unlessAborted } from '../../util/abort.ts';
import { AgentError } from '../errors.ts';
import type { Planner, PlannerCall, PlannerEvent, PlannerRequest } from '../planner.ts';
import type { NewTurnEvent } from '../shapes/turn-event.ts';

export interface Answer {
  readonly text: string;
  readonly calls: readonly PlannerCall[];
  readonly finish: Extract<PlannerEvent, { type: 'end' }>['finish'];
  readonly usage: Extract<PlannerEvent, { type: 'end' }>['usage'];
  /** Characters that the model wrote, thoughts and calls with them. */
  readonly written: number;
}

/**
 * Characters of an answer, on average for each token that it may have: whoever writes more keeps to no limit. Few texts
 * come to more than 6.
 */
const mostPerToken = 16;
/** And for all of it: a single token may be long. */
const mostAnyway = 256;

/**
 * One answer, told as it comes; one that is longer than was asked for is cut off. The signal ends it at once, also where the model
 * never notices.
 */
export async function readAnswer(
  planner: Planner,
  request: PlannerRequest,
  emit: (event: NewTurnEvent) => Promise<void>,
  signal: AbortSignal,
): Promise<Answer> {
  const texts: string[] = [];
  const calls: PlannerCall[] = [];
  let written = 0;
  const most = mostAnyway + mostPerToken * request.maxTokens;
  const events = planner.answer(request, signal)[Symbol.asyncIterator]();
  try {
    for (;;) {
      const next = await unlessAborted(events.next(), signal);
      if (next.done)
        throw new AgentError('unavailable', 'model_broke_off', 'The model broke off its answer.');
      const event = next.value;
      if (event.type === 'end') {
        const { finish, usage } = event;
        return { text: texts.join(''), calls, finish, usage, written };
      }
      if (event.type === 'call') {
        calls.push(event.call);
        written += event.call.name.length + event.call.arguments.length;
      } else if (event.text !== '') {
        if (event.type === 'delta') texts.push(event.text);
        written += event.text.length;
        await emit({ type: event.type, text: event.text });
      }
      if (written > most)
        return { text: texts.join(''), calls: [], finish: 'length', usage: undefined, written };
    }
  } finally {
    events.return?.()?.catch(() => undefined);
  }
}
