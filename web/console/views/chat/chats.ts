/** The conversations of the console with the host's model. */
import { asFault, Fault } from '../../../api/fault.ts';
import { createChats, useChatsState } from '../../../chat/chats.ts';
import { History } from '../../../chat/history.ts';
import { pathBefore, type TurnPosition } from '../../../chat/tree.ts';
import { type AssistantTurn, emptyAnswer, type ToolResult, type Turn, type UserTurn } from './answer.ts';
import { streamCompletion } from './completion.ts';
import { messagesOf } from './messages.ts';

type SamplingBody = Readonly<Record<string, unknown>>;

const store = createChats<UserTurn, AssistantTurn, SamplingBody>({
  history: new History<Turn>({ name: 'lathe-chat', optOutKey: 'lathe-chat-history', storable, revived }),
  emptyAnswer,
  generate: ({ conversation, answer, signal }) =>
    streamCompletion({
      answer,
      messages: messagesOf(conversation.system, pathBefore(conversation, answer)),
      signal,
    }),
  failedAnswer: (answer, error) => ({ ...answer, state: 'failed', error: asFault(error) }),
  // The stream adds to its arrays.
  snapshot: (answer) => ({
    ...answer,
    tokens: answer.tokens.slice(),
    timing: { ...answer.timing, chunkTimes: answer.timing.chunkTimes.slice() },
  }),
});

export const useChats = () => useChatsState(store);

export const chats = {
  ...store,

  /** Sends a message at the end of what is shown. */
  send: (id: string, text: string, sampling: SamplingBody): void =>
    void store.send(id, { role: 'user', text }, sampling),

  /** Sends the results of the tool calls of an answer. */
  sendResults: (
    id: string,
    turn: TurnPosition,
    toolResults: readonly ToolResult[],
    sampling: SamplingBody,
  ): void => void store.send(id, { role: 'user', text: '', toolResults }, sampling, turn),

  /** Sends another version of a message. */
  edit: (id: string, turn: TurnPosition, text: string, sampling: SamplingBody): void =>
    void store.edit(id, turn, { role: 'user', text }, sampling),

  /** Generates another version of an answer. */
  regenerate: (id: string, turn: Turn, sampling: SamplingBody): void =>
    void store.regenerate(id, turn, sampling),
};

/** A turn without the probabilities and times of its tokens, which are many times as large as its text. */
function storable(turn: Turn): Turn {
  if (turn.role === 'user') return turn;
  const { error, ...rest } = turn;
  const timing = { ...turn.timing, chunkTimes: [] };
  if (error === undefined) return { ...rest, tokens: [], timing };
  const { message, status, code, violations, requestId } = error as Fault;
  return { ...rest, tokens: [], timing, error: { message, status, code, violations, requestId } };
}

function revived(turn: Turn): Turn {
  if (turn.role === 'user' || turn.error === undefined) return turn;
  const { message, ...rest } = turn.error as Fault;
  return { ...turn, error: new Fault(message, rest) };
}
