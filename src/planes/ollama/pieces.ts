import type { TokenLogprob } from '../../engine/index.ts';
import { isRecord } from '../../util/json.ts';
import type { ChatEnd, ChatEvent } from '../turn/chat.ts';
import type { ToolCallLine } from './line-schema.ts';

/** A part of an answer as a line has it. */
export interface Piece {
  readonly content?: string;
  readonly thinking?: string;
  readonly calls?: readonly ToolCallLine[];
  readonly logprobs?: readonly TokenLogprob[];
}

export type PieceEvent = ({ readonly type: 'piece' } & Piece) | ChatEnd;

/** The events of one answer, with calls in one piece: on this wire their arguments are an object. */
export async function* toPieces(
  events: AsyncIterable<ChatEvent>,
): AsyncGenerator<PieceEvent, void, undefined> {
  let call: { index: number; id: string; name: string; texts: string[] } | undefined;
  function* finished(): Generator<PieceEvent> {
    if (call) yield { type: 'piece', ...written(call) };
    call = undefined;
  }
  for await (const event of events) {
    if (event.type === 'prompt') continue;
    if (event.type === 'tool_arguments') {
      call?.texts.push(event.text);
      continue;
    }
    yield* finished();
    if (event.type === 'tool_call') call = { index: event.index, id: event.id, name: event.name, texts: [] };
    else if (event.type === 'end') yield event;
    else {
      const { type, text, logprobs } = event;
      const carried = logprobs ? { logprobs } : {};
      yield { type: 'piece', ...(type === 'content' ? { content: text } : { thinking: text }), ...carried };
    }
  }
}

/** A call that the answer's end cut through stays text. */
function written({
  index,
  id,
  name,
  texts,
}: {
  index: number;
  id: string;
  name: string;
  texts: string[];
}): Piece {
  const text = texts.join('');
  const value = parsed(text === '' ? '{}' : text);
  if (!isRecord(value)) return { content: text };
  return { calls: [{ id, function: { index, name, arguments: value } }] };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** A whole answer as one piece. */
export async function collectPieces(
  events: AsyncIterable<PieceEvent>,
): Promise<{ piece: Piece; end: ChatEnd }> {
  const content: string[] = [];
  const thinking: string[] = [];
  const calls: ToolCallLine[] = [];
  const logprobs: TokenLogprob[] = [];
  for await (const event of events) {
    if (event.type === 'end') {
      const thought = thinking.length > 0 ? { thinking: thinking.join('') } : {};
      const piece = { content: content.join(''), ...thought, calls, logprobs };
      return { piece, end: event };
    }
    if (event.content !== undefined) content.push(event.content);
    if (event.thinking !== undefined) thinking.push(event.thinking);
    calls.push(...(event.calls ?? []));
    logprobs.push(...(event.logprobs ?? []));
  }
  throw new Error('the engine ended a generation without an end event');
}
