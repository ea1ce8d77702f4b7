import { isRecord } from '../../util/json.ts';
import type { AnswerEvent } from '../core/answer.ts';
import type { AnswerAbout } from '../core/wire.ts';
import { parseExact } from '../core/json.ts';
import { writtenSeal } from './seals.ts';
import { writeStop } from './stop-reasons.ts';
import { noUsage, usageMember } from './usage.ts';

type Block =
  | { type: 'text'; text: string }
  | { type: 'thinking'; thinking: string; signature: string }
  | { type: 'redacted_thinking'; data: string }
  | { type: 'tool_use'; id: string; name: string; input: unknown };
type Finish = Extract<AnswerEvent, { type: 'finish' }>;

/** A whole message of its events. */
export function bodyOf(events: readonly AnswerEvent[], about: AnswerAbout) {
  const content: Block[] = [];
  const calls = new Map<number, { readonly block: Block & { type: 'tool_use' }; text: string }>();
  let id: string | undefined;
  let usage = noUsage;
  let finish: Finish = { type: 'finish', reason: 'stop' };
  let refusal = '';
  for (const event of events) {
    const last = content.at(-1);
    switch (event.type) {
      case 'start':
        id = event.id;
        break;
      case 'text':
        if (event.text === '') break;
        if (last?.type === 'text') last.text += event.text;
        else content.push({ type: 'text', text: event.text });
        break;
      case 'refusal':
        refusal += event.text;
        break;
      case 'reasoning':
        // What is sealed is closed.
        if (event.text === '') break;
        if (last?.type === 'thinking' && last.signature === '') last.thinking += event.text;
        else content.push({ type: 'thinking', thinking: event.text, signature: '' });
        break;
      case 'reasoning_signature':
        if (last?.type === 'thinking' && last.signature === '') last.signature = writtenSeal(event.signature);
        else content.push({ type: 'thinking', thinking: '', signature: writtenSeal(event.signature) });
        break;
      case 'sealed_reasoning':
        content.push({ type: 'redacted_thinking', data: writtenSeal(event.data) });
        break;
      case 'tool_call': {
        const block: Block = { type: 'tool_use', id: event.id, name: event.name, input: {} };
        calls.set(event.index, { block, text: '' });
        content.push(block);
        break;
      }
      case 'tool_arguments': {
        const call = calls.get(event.index);
        if (call) call.text += event.text;
        break;
      }
      case 'usage':
        usage = event.usage;
        break;
      case 'finish':
        finish = event;
        break;
      case 'progress':
      case 'failure':
        break;
    }
  }
  for (const { block, text } of calls.values()) block.input = inputOf(text);
  return {
    id: messageId(id, about),
    type: 'message',
    role: 'assistant',
    model: about.model,
    content,
    ...stopMembers(finish, refusal),
    usage: usageMember(usage),
  };
}

/** Of a call's arguments. What is no object stands in one, readable: the wire knows objects only. */
export function inputOf(text: string): unknown {
  if (text.trim() === '') return {};
  try {
    const value = parseExact(text);
    if (isRecord(value)) return value;
  } catch {
    // Cut off by the limit of tokens, or not written well.
  }
  return { invalid_json: text };
}

export const messageId = (id: string | undefined, { requestId }: AnswerAbout): string =>
  id !== undefined && id !== '' ? id : requestId.replace(/^(req_)?/, 'msg_');

/** `stop_reason` and what goes with it. @param refusal what the model said in place of an answer */
export const stopMembers = (finish: Finish, refusal: string) => ({
  stop_reason: writeStop(finish, refusal !== ''),
  stop_sequence: finish.stopText ?? null,
  ...(refusal === '' ? {} : { stop_details: { type: 'refusal', category: null, explanation: refusal } }),
});
