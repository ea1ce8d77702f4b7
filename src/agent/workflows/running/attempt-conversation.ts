import type { Store } from '../../../store/index.ts';
import type { Conversation } from '../../services.ts';
import type { RunEvent } from '../../shapes/run.ts';
import type { TurnEvent } from '../../shapes/turn-event.ts';
import { insertMessages, newConversation, readConversation } from '../../stored-conversation.ts';
import { promptMessage } from '../../turns/message-history.ts';
import { readStoredEvents } from '../../tasks/stored-events.ts';
import { currentCycle, type StepRow } from './rows.ts';
import type { Segment } from './segment.ts';

/** How often an attempt goes on after the host ended: the attempt itself may be the cause. */
const maxResumes = 10;

export const attemptId = ({ row }: Segment, step: string, attempt: number): string =>
  `${row.id}:${currentCycle(row)}:${step}:${attempt}`;

/** Begins the conversation of an attempt; it is stored with its prompt. */
export async function beginConversation(store: Store, id: string, prompt: string): Promise<Conversation> {
  const messages = [promptMessage({ prompt })];
  await store.transaction((tx) => insertMessages(tx, store, { id, first: 0, messages }));
  return newConversation(store, id, messages);
}

/**
 * The conversation of an attempt that the host was stopped in, to go on with.
 * @returns undefined where the attempt has to be run again from its beginning
 */
export async function resumedConversation(
  segment: Segment,
  { step, attempts, state, error }: Pick<StepRow, 'step' | 'attempts' | 'state' | 'error'>,
): Promise<Conversation | undefined> {
  const { services, row } = segment;
  // An attempt that has failed is not gone on with.
  if (attempts === 0 || (error !== null && state !== 'interrupted')) return undefined;
  const id = attemptId(segment, step, attempts);
  const events = eventsOfStep(services.store, row.id, step);
  const conversation = await readConversation(services.store, id, events, {
    firstSeq: 0,
    startedAt: row.started_at,
  });
  const hasAnswered = conversation.messages.some(({ role }) => role === 'assistant');
  return hasAnswered && (conversation.interrupted?.resumes ?? 0) < maxResumes ? conversation : undefined;
}

/** Events of the last attempt of a step. */
async function* eventsOfStep(
  store: Store,
  run: string,
  step: string,
): AsyncGenerator<TurnEvent, void, undefined> {
  let events: TurnEvent[] = [];
  for await (const event of readStoredEvents<RunEvent>(store, run)) {
    if (event.type === 'step_start' && event.step === step) events = [];
    if (event.type === 'step_event' && event.step === step) events.push(event.event);
  }
  yield* events;
}
