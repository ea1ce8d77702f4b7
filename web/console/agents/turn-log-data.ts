import type { TurnEvent } from './schemas.ts';

type EventOf<Type extends TurnEvent['type']> = Extract<TurnEvent, { type: Type }>;

/** A unit of a displayed turn log: text deltas are joined, and a tool call has its result. */
export type LogBlock =
  | { readonly kind: 'turn'; readonly seq: number; readonly n: number; usage?: EventOf<'usage'> }
  | { readonly kind: 'text' | 'reasoning'; readonly seq: number; text: string }
  | {
      readonly kind: 'call';
      readonly seq: number;
      readonly call: EventOf<'tool_call'>;
      /** What it has printed until now. */
      output?: string;
      result?: EventOf<'tool_result'>;
      staged?: EventOf<'staged'>;
    }
  | { readonly kind: 'staged'; readonly seq: number; readonly staged: EventOf<'staged'> }
  | { readonly kind: 'message'; readonly seq: number; readonly prompt: string }
  | { readonly kind: 'resumed'; readonly seq: number }
  | { readonly kind: 'compacted'; readonly seq: number; readonly messages: number; readonly summary: string }
  | { readonly kind: 'retrying'; readonly seq: number; readonly message: string }
  | { readonly kind: 'end'; readonly seq: number; readonly end: EventOf<'answer' | 'aborted'> };

export interface TurnLogData {
  readonly blocks: readonly LogBlock[];
  readonly start: EventOf<'start'> | undefined;
  readonly end: EventOf<'answer' | 'aborted'> | undefined;
  /** Turns of the last part of the conversation, and tokens of all parts. */
  readonly usageTotals: { readonly turns: number; readonly prompt: number; readonly completion: number };
}

/** @param events of one task, or of one step of a run, in their order */
export function buildTurnLog(events: readonly TurnEvent[]): TurnLogData {
  const blocks: LogBlock[] = [];
  let start: TurnLogData['start'];
  let end: TurnLogData['end'];
  let earlierTurns = 0;
  const usageTotals = { turns: 0, prompt: 0, completion: 0 };
  const lastBlock = <Kind extends LogBlock['kind']>(kind: Kind) =>
    blocks.findLast((block): block is Extract<LogBlock, { kind: Kind }> => block.kind === kind);
  const openCall = (id: string) =>
    blocks.findLast(
      (block): block is Extract<LogBlock, { kind: 'call' }> =>
        block.kind === 'call' && block.call.call_id === id && !block.result,
    );
  for (const event of events) {
    const { seq } = event;
    switch (event.type) {
      case 'start':
        start = event;
        break;
      case 'message':
        end = undefined;
        // Limits are those of a part.
        earlierTurns += usageTotals.turns;
        usageTotals.turns = 0;
        blocks.push({ kind: 'message', seq, prompt: event.prompt });
        break;
      case 'compacted':
        blocks.push({ kind: 'compacted', seq, messages: event.messages, summary: event.summary });
        break;
      case 'resumed':
        blocks.push({ kind: 'resumed', seq });
        break;
      case 'turn':
        usageTotals.turns = event.n - earlierTurns;
        blocks.push({ kind: 'turn', seq, n: event.n });
        break;
      case 'delta':
      case 'reasoning': {
        const kind = event.type === 'delta' ? 'text' : 'reasoning';
        const last = blocks.at(-1);
        if (last?.kind === kind) last.text += event.text;
        else blocks.push({ kind, seq, text: event.text });
        break;
      }
      case 'retrying': {
        // What came of the answer is void.
        while (['text', 'reasoning'].includes(blocks.at(-1)?.kind ?? '')) blocks.pop();
        blocks.push({ kind: 'retrying', seq, message: event.message });
        break;
      }
      case 'usage': {
        usageTotals.prompt += event.prompt_tokens;
        usageTotals.completion += event.completion_tokens;
        const turn = lastBlock('turn');
        if (turn) turn.usage = event;
        break;
      }
      case 'tool_call':
        blocks.push({ kind: 'call', seq, call: event });
        break;
      case 'staged': {
        const open = lastBlock('call');
        if (open && !open.result && !open.staged) open.staged = event;
        else blocks.push({ kind: 'staged', seq, staged: event });
        break;
      }
      case 'tool_output': {
        const call = openCall(event.call_id);
        if (call) call.output = (call.output ?? '') + event.text;
        break;
      }
      case 'tool_result': {
        const call = openCall(event.call_id);
        if (call) call.result = event;
        break;
      }
      case 'answer': {
        end = event;
        // The text was streamed as deltas before.
        const last = blocks.at(-1);
        if (last?.kind === 'text' && last.text.trim() === event.text.trim()) blocks.pop();
        blocks.push({ kind: 'end', seq, end: event });
        break;
      }
      case 'waiting':
        // The block of the call shows what was staged.
        break;
      case 'aborted':
        end = event;
        blocks.push({ kind: 'end', seq, end: event });
        break;
    }
  }
  return { blocks, start, end, usageTotals };
}

/** The arguments of a call in one line; long values are shortened. */
export function summarizeArguments(value: unknown): string {
  if (typeof value !== 'object' || value === null) return value === undefined ? '' : JSON.stringify(value);
  return Object.entries(value)
    .map(([name, one]) => {
      const text = typeof one === 'string' ? one : JSON.stringify(one);
      const line = text.replaceAll(/\s+/g, ' ');
      return `${name}: ${line.length > 60 ? `${line.slice(0, 57)}...` : line}`;
    })
    .join(', ');
}
