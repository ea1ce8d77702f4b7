import { unlessAborted } from '../../util/abort.ts';
import { AgentError } from '../errors.ts';
import type { Planner, PlannerCall, PlannerEvent, PlannerRequest } from '../planner.ts';
import type { NewTurnEvent } from '../shapes/turn-event.ts';

export interface Answer {
  readonly text: string;
  readonly calls: readonly PlannerCall[];
  readonly finish: Extract<PlannerEvent, { type: 'end' }>['finish'];
  readonly usage: Extract<PlannerEvent, { type: 'end' }>['usage'];
  /** Characters that the model wrote, including reasoning and tool calls. */
  readonly written: number;
}

/**
 * Maximum average characters per token. Normal text has at most 6; a model that exceeds this ignores its token limit.
 */
const mostPerToken = 16;
/** Characters that are always allowed, because a single token may be long. */
const mostAnyway = 256;

/**
 * Reads one answer and emits its deltas as they arrive. An answer that is longer than requested is cut off. The signal
 * ends the reading at once, even if the model does not react to it.
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
        throw new AgentError('unavailable', 'model_broke_off', 'The model did not complete its answer.');
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
