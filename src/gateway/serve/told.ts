import { type Ending, type GatewayFacts, traceparentOf, type Watch, type Work } from '../../watch/index.ts';
import type { WireError } from '../../wires/core/error.ts';
import type { AnswerEvent } from '../../wires/core/answer.ts';
import type { Conversation, Message, Part } from '../../wires/core/conversation.ts';
import type { Tally } from './relay.ts';

/** The span of a request that costs money. */
export type Told = Work<'gateway'>;

/** Span attributes of a route that costs money. */
export type Priced = Pick<GatewayFacts, 'wire' | 'operation'>;

export const tell = (watch: Watch, priced: Priced, id: string, traceparent: string | undefined): Told =>
  watch.begin('gateway', id, { ...priced, stream: false }, { traceparent: traceparentOf(traceparent) });

/** The caller disconnected before it had its answer. */
export const leftEarly = (status: number): Ending => ({ outcome: 'abandoned', status, code: 'client_gone' });

/** @param status overrides the error's status: after a stream began, the status sent is 200 */
export const endingOf = ({ status: own, code, type }: WireError, status = own): Ending => ({
  outcome: status >= 400 && status < 500 ? 'refused' : 'failed',
  status,
  // Providers return codes of any form; only identifier-like codes are recorded.
  code: code !== undefined && /^[a-z][a-z0-9_]{0,63}$/.test(code) ? code : type,
});

/** Ending of a buffered answer. Errors have already ended their span, so what is left is a stored answer. */
export const endingOfStatus = (status: number): Ending =>
  status < 400
    ? { outcome: 'ok', status }
    : { outcome: status < 500 ? 'refused' : 'failed', status, code: 'idempotent_replay' };

/**
 * Adds the request to the transcript.
 * @param read parses the conversation. It may throw: passed-through bodies need not be valid here. Then the text is added.
 */
export function sayRequest(told: Told | undefined, text: string, read: () => Conversation): void {
  if (!told?.said) return;
  let messages: readonly Message[];
  try {
    ({ messages } = read());
  } catch {
    told.say('user', () => text);
    return;
  }
  for (const { role, parts } of messages) for (const part of parts) sayPart(told, role, part);
}

function sayPart(told: Told, role: Message['role'], part: Part): void {
  switch (part.type) {
    case 'text':
    case 'refusal':
      told.say(role, () => part.text);
      break;
    case 'reasoning':
      told.say('reasoning', () => part.text);
      break;
    case 'tool_call':
      told.say('tool_call', () => part.arguments, part.name);
      break;
    case 'tool_result': {
      const texts = part.parts.map((one) => (one.type === 'text' ? one.text : '(image)'));
      told.say('tool', () => texts.join('\n'), part.name);
      break;
    }
    // Binary data and reasoning that only its provider can read are left out.
    case 'image':
    case 'file':
    case 'sealed_reasoning':
  }
}

/** Adds an answer to the transcript. Usage is recorded only if the answer is complete. */
export function tellAnswer(told: Told | undefined, { kept = [], finish, usage }: Tally): void {
  if (!told) return;
  for (const [, answer] of Map.groupBy(kept, ({ choice = 0 }) => choice))
    for (const { role, text, name } of textsOf(answer)) told.say(role, () => text, name);
  if (finish === undefined) return;
  told.facts.finish = finish;
  if (!usage) return;
  told.facts.promptTokens = usage.fresh + usage.cacheWrite + usage.cacheWrite1h + usage.cacheRead;
  told.facts.cachedTokens = usage.cacheRead;
  told.facts.completionTokens = usage.output;
}

function textsOf(events: readonly AnswerEvent[]) {
  const reasoning: string[] = [];
  const text: string[] = [];
  const calls = new Map<number, { readonly name: string; readonly pieces: string[] }>();
  for (const event of events) {
    if (event.type === 'reasoning') reasoning.push(event.text);
    else if (event.type === 'text' || event.type === 'refusal') text.push(event.text);
    else if (event.type === 'tool_call') calls.set(event.index, { name: event.name, pieces: [] });
    else if (event.type === 'tool_arguments') calls.get(event.index)?.pieces.push(event.text);
  }
  const parts = [
    { role: 'reasoning' as const, name: undefined, text: reasoning.join('') },
    { role: 'assistant' as const, name: undefined, text: text.join('') },
  ];
  return [
    ...parts.filter((part) => part.text !== ''),
    ...[...calls.values()].map(({ name, pieces }) => ({
      role: 'tool_call' as const,
      name,
      text: pieces.join(''),
    })),
  ];
}
