import type { Store, Tx } from '../store/index.ts';
import type { ChatModelMessage } from './chat-model.ts';
import type { ToolOutput } from './tool.ts';
import { unansweredCallsOf } from './turns/message-history.ts';
import { sumDelegatedTokens } from './tasks/delegation.ts';
import { type BegunCall, type Conversation, type InterruptedWork, repeatQuestion } from './services.ts';
import type { TurnEvent } from './shapes/turn-event.ts';

/** Conversations of tasks, and of attempts of steps, in the database. Each has an id: the task's, or the attempt's. */

/** A new conversation, whose messages are stored already. */
export const newConversation = (
  store: Store,
  id: string,
  messages: readonly ChatModelMessage[],
): Conversation => ({ id, messages, lastTurn: 0, record: recorder(store, id, messages.length) });

/** The conversation with the messages of a new part, which are stored with it. */
export const withPart = (
  store: Store,
  id: string,
  { messages, lastTurn }: Conversation,
  added: readonly ChatModelMessage[],
): Conversation => {
  const all = [...messages, ...added];
  return { id, messages: all, lastTurn, record: recorder(store, id, all.length) };
};

/**
 * A conversation, to go on with.
 * @param events of the task or the attempt
 * @param part the part that the host was stopped in; undefined: a new part begins
 */
export async function readConversation(
  store: Store,
  id: string,
  events: AsyncIterable<TurnEvent>,
  part?: { readonly firstSeq: number; readonly startedAt: string },
): Promise<Conversation & { readonly calls: InterruptedWork['calls'] }> {
  const rows = await store.read((db) =>
    db.selectFrom('task_messages').select(['n', 'message']).where('task_id', '=', id).orderBy('n').execute(),
  );
  const messages = rows.map(({ message }) => JSON.parse(message) as ChatModelMessage);
  const turnsOfPart = await readTurns(events, part?.firstSeq ?? Number.POSITIVE_INFINITY);
  const { lastTurn, isTurnAnswered, answeredTurns, ...work } = turnsOfPart;
  // An answer without calls and usage has no event of its own.
  const isLastRecorded = !isTurnAnswered && messages.at(-1)?.role === 'assistant';
  const turns = answeredTurns + (isLastRecorded ? 1 : 0);
  // What a task handed on counts against its limit, too.
  const completionTokens =
    work.completionTokens + (part ? await sumDelegatedTokens(store, id, part.startedAt) : 0);
  return {
    id,
    messages,
    lastTurn,
    calls: work.calls,
    record: recorder(store, id, (rows.at(-1)?.n ?? -1) + 1),
    ...(part ? { interrupted: toInterruptedWork(turns, { ...work, completionTokens }) } : {}),
  };
}

/** Messages are numbered by the one writer that a conversation has at a time. */
function recorder(store: Store, id: string, first: number): Conversation['record'] {
  let next = first;
  return async (messages) => {
    await store.transaction((tx) => insertMessages(tx, store, { id, first: next, messages }));
    next += messages.length;
  };
}

/** Stores messages of a conversation from the number `first` on. */
export async function insertMessages(
  tx: Tx,
  store: Store,
  { id, first, messages }: { id: string; first: number; messages: readonly ChatModelMessage[] },
): Promise<void> {
  const at = store.time();
  const values = messages.map((message, index) => ({
    task_id: id,
    n: first + index,
    at,
    message: JSON.stringify(message),
  }));
  await tx.insertInto('task_messages').values(values).execute();
}

interface TurnsOfPart {
  /** The number of the last turn of all parts. */
  readonly lastTurn: number;
  readonly isTurnAnswered: boolean;
  readonly answeredTurns: number;
  readonly resumes: number;
  readonly turnsWithUsage: number;
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly calls: InterruptedWork['calls'];
}

/** Reads the turns of a task, and what the part from `firstSeq` on has done. */
async function readTurns(events: AsyncIterable<TurnEvent>, firstSeq: number): Promise<TurnsOfPart> {
  let lastTurn = 0;
  let turns = 0;
  let isTurnAnswered = true;
  let resumes = 0;
  let turnsWithUsage = 0;
  let promptTokens = 0;
  let completionTokens = 0;
  let unanswered = 0;
  const calls = new Map<string, BegunCall>();
  let lastCall = '';
  for await (const event of events) {
    if (event.type === 'turn') lastTurn = event.n;
    if (event.type === 'tool_call') {
      lastCall = event.call_id;
      calls.set(lastCall, {});
    } else if (event.type === 'staged')
      calls.set(lastCall, {
        ...calls.get(lastCall),
        pendingId: event.pending_id,
        isQuestion: event.tool === repeatQuestion,
      });
    if (event.seq < firstSeq) continue;
    switch (event.type) {
      case 'turn':
        if (!isTurnAnswered) unanswered += 1;
        turns += 1;
        isTurnAnswered = false;
        break;
      case 'resumed':
        resumes += 1;
        break;
      case 'waiting':
        // It did nothing that could have ended the host.
        resumes = 0;
        break;
      case 'usage':
        resumes = 0;
        turnsWithUsage += 1;
        promptTokens += event.prompt_tokens;
        completionTokens += event.completion_tokens;
        isTurnAnswered = true;
        break;
      case 'tool_call':
        isTurnAnswered = true;
        break;
      case 'tool_result':
        resumes = 0;
        calls.set(event.call_id, { ...calls.get(event.call_id), output: event.output });
        break;
      default:
    }
  }
  return {
    lastTurn,
    isTurnAnswered,
    answeredTurns: turns - unanswered - (isTurnAnswered ? 0 : 1),
    resumes,
    turnsWithUsage,
    promptTokens,
    completionTokens,
    calls,
  };
}

function toInterruptedWork(
  turns: number,
  {
    resumes,
    turnsWithUsage,
    promptTokens,
    completionTokens,
    calls,
  }: Omit<TurnsOfPart, 'lastTurn' | 'isTurnAnswered' | 'answeredTurns'>,
): InterruptedWork {
  const isComplete = turns > 0 && turnsWithUsage === turns;
  const usage = { prompt_tokens: promptTokens, completion_tokens: completionTokens };
  return { totals: { turns, ...(isComplete ? { usage } : {}) }, resumes, completionTokens, calls };
}

/** What became of calls that an earlier part left open, for the model. */
export async function describeOpenCalls(
  store: Store,
  { messages, calls }: Pick<Conversation, 'messages'> & { readonly calls: InterruptedWork['calls'] },
): Promise<ReadonlyMap<string, string>> {
  const described = new Map<string, string>();
  for (const { id } of unansweredCallsOf(messages)) {
    const { pendingId, output } = calls.get(id) ?? {};
    if (output !== undefined) described.set(id, output);
    else if (pendingId !== undefined) described.set(id, await describeChange(store, pendingId));
  }
  return described;
}

async function describeChange(store: Store, id: string): Promise<string> {
  const row = await store.read((db) =>
    db.selectFrom('pending').select(['state', 'output']).where('id', '=', id).executeTakeFirst(),
  );
  const result =
    row?.output === null || row === undefined ? '' : (JSON.parse(row.output) as ToolOutput).output;
  switch (row?.state) {
    case 'staged':
      return `This change still waits for a person (${id}); it is not made. The task was stopped meanwhile.`;
    case 'applying':
      return `A person approved this change (${id}), and it is being made. The task was stopped meanwhile.`;
    case 'applied':
      return `A person approved this change, and it was made. ${result}`;
    case 'failed':
      return `A person approved this change. ${result}`;
    case 'discarded':
    case 'expired':
    case undefined:
      return 'This change was not made.';
  }
}
