import { isRecord } from '../../util/json.ts';
import type { Timings, TokenLogprob } from '../../wires/core/answer.ts';
import type { AnswerBatches } from '../../wires/core/backend.ts';
import type { ToolCallLine } from './line-schema.ts';

/** A part of an answer as a line has it. */
export interface Piece {
  readonly content?: string;
  readonly thinking?: string;
  readonly calls?: readonly ToolCallLine[];
  readonly logprobs?: readonly TokenLogprob[];
}

export interface PiecesEnd {
  readonly type: 'end';
  /** By a limit of tokens. */
  readonly isCut: boolean;
  readonly timings: Timings;
}

export type PieceEvent = ({ readonly type: 'piece' } & Piece) | PiecesEnd;

/** The events of one answer, with calls in one piece: on this wire their arguments are an object. */
export async function* toPieces(batches: AnswerBatches): AsyncGenerator<PieceEvent, void, undefined> {
  let call: { index: number; id: string; name: string; texts: string[] } | undefined;
  let took: Timings | undefined;
  for await (const batch of batches)
    for (const event of batch) {
      if (event.type === 'usage') took = event.timings;
      if (event.type === 'tool_arguments') call?.texts.push(event.text);
      const isPiece = event.type === 'text' || event.type === 'reasoning';
      if (!isPiece && event.type !== 'tool_call' && event.type !== 'finish') continue;
      if (call) yield { type: 'piece', ...written(call) };
      call = undefined;
      if (event.type === 'tool_call') {
        call = { index: event.index, id: event.id, name: event.name, texts: [] };
        continue;
      }
      if (event.type === 'finish') {
        if (!took) throw new Error('the engine ended a generation without its measures');
        yield { type: 'end', isCut: event.reason === 'length', timings: took };
        continue;
      }
      const { type, text, logprobs } = event;
      const carried = logprobs ? { logprobs } : {};
      yield { type: 'piece', ...(type === 'text' ? { content: text } : { thinking: text }), ...carried };
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
): Promise<{ piece: Piece; end: PiecesEnd }> {
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
