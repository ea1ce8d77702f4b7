import type { TurnEvent } from './shapes.ts';

type Of<Type extends TurnEvent['type']> = Extract<TurnEvent, { type: Type }>;

/** A unit of a displayed turn log: text deltas are joined, and a tool call has its result. */
export type Block =
  | { readonly kind: 'turn'; readonly seq: number; readonly n: number; usage?: Of<'usage'> }
  | { readonly kind: 'text' | 'reasoning'; readonly seq: number; text: string }
  | {
      readonly kind: 'call';
      readonly seq: number;
      readonly call: Of<'tool_call'>;
      result?: Of<'tool_result'>;
      staged?: Of<'staged'>;
    }
  | { readonly kind: 'staged'; readonly seq: number; readonly staged: Of<'staged'> }
  | { readonly kind: 'end'; readonly seq: number; readonly end: Of<'answer' | 'aborted'> };

export interface Log {
  readonly blocks: readonly Block[];
  readonly start: Of<'start'> | undefined;
  readonly end: Of<'answer' | 'aborted'> | undefined;
  /** Usage of all turns so far. */
  readonly spent: { readonly turns: number; readonly prompt: number; readonly completion: number };
}

/** @param events of one task, or of one step of a run, in their order */
export function logOf(events: readonly TurnEvent[]): Log {
  const blocks: Block[] = [];
  let start: Log['start'];
  let end: Log['end'];
  const spent = { turns: 0, prompt: 0, completion: 0 };
  const lastOf = <Kind extends Block['kind']>(kind: Kind) =>
    blocks.findLast((block): block is Extract<Block, { kind: Kind }> => block.kind === kind);
  for (const event of events) {
    const { seq } = event;
    switch (event.type) {
      case 'start':
        start = event;
        break;
      case 'turn':
        spent.turns = event.n;
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
      case 'usage': {
        spent.prompt += event.prompt_tokens;
        spent.completion += event.completion_tokens;
        const turn = lastOf('turn');
        if (turn) turn.usage = event;
        break;
      }
      case 'tool_call':
        blocks.push({ kind: 'call', seq, call: event });
        break;
      case 'staged': {
        const open = lastOf('call');
        if (open && !open.result && !open.staged) open.staged = event;
        else blocks.push({ kind: 'staged', seq, staged: event });
        break;
      }
      case 'tool_result': {
        const of = blocks.findLast(
          (block) => block.kind === 'call' && block.call.call_id === event.call_id && !block.result,
        );
        if (of?.kind === 'call') of.result = event;
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
      case 'aborted':
        end = event;
        blocks.push({ kind: 'end', seq, end: event });
        break;
    }
  }
  return { blocks, start, end, spent };
}

/** The arguments of a call in one line; long values are shortened. */
export function inShort(value: unknown): string {
  if (typeof value !== 'object' || value === null) return value === undefined ? '' : JSON.stringify(value);
  return Object.entries(value)
    .map(([name, one]) => {
      const text = typeof one === 'string' ? one : JSON.stringify(one);
      const line = text.replaceAll(/\s+/g, ' ');
      return `${name}: ${line.length > 60 ? `${line.slice(0, 57)}...` : line}`;
    })
    .join(', ');
}
