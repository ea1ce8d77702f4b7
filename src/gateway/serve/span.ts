import {
  type SpanResult,
  type GatewayAttributes,
  parseTraceparent,
  type Tracer,
  type TraceSpan,
} from '../../tracing/index.ts';
import type { WireError } from '../../wires/core/error.ts';
import type { AnswerEvent } from '../../wires/core/answer.ts';
import type { Conversation, Message, Part } from '../../wires/core/conversation.ts';
import type { AnswerTally } from './relay.ts';

/** The span of a request that costs money. */
export type GatewaySpan = TraceSpan<'gateway'>;

/** Span attributes of a route that costs money. */
export type PricedOperation = Pick<GatewayAttributes, 'wire' | 'operation'>;

export const startSpan = (
  tracer: Tracer,
  priced: PricedOperation,
  id: string,
  traceparent: string | undefined,
): GatewaySpan =>
  tracer.startSpan(
    'gateway',
    id,
    { ...priced, stream: false },
    { traceparent: parseTraceparent(traceparent) },
  );

/** The caller disconnected before it had its answer. */
export const clientGoneResult = (status: number): SpanResult => ({
  outcome: 'abandoned',
  status,
  code: 'client_gone',
});

/** Providers return codes of any form; only identifier-like codes are recorded. */
export const safeCodeOf = ({ code, type }: WireError): string =>
  code !== undefined && /^[a-z][a-z0-9_]{0,63}$/.test(code) ? code : type;

/** @param status overrides the error's status: after a stream began, the status sent is 200 */
export const spanResultOf = (error: WireError, status = error.status): SpanResult => ({
  outcome: status >= 400 && status < 500 ? 'refused' : 'failed',
  status,
  code: safeCodeOf(error),
});

/** Ending of a buffered answer. Errors have already ended their span, so what is left is a stored answer. */
export const spanResultOfStatus = (status: number): SpanResult =>
  status < 400
    ? { outcome: 'ok', status }
    : { outcome: status < 500 ? 'refused' : 'failed', status, code: 'idempotent_replay' };

/**
 * Adds the request to the transcript.
 * @param read parses the conversation. It may throw: passed-through bodies need not be valid here. Then the text is added.
 */
export function recordRequest(
  span: GatewaySpan | undefined,
  text: string,
  parseConversation: () => Conversation,
): void {
  if (!span?.transcript) return;
  let messages: readonly Message[];
  try {
    ({ messages } = parseConversation());
  } catch {
    span.addTranscriptEntry('user', () => text);
    return;
  }
  for (const { role, parts } of messages) for (const part of parts) recordPart(span, role, part);
}

function recordPart(span: GatewaySpan, role: Message['role'], part: Part): void {
  switch (part.type) {
    case 'text':
    case 'refusal':
      span.addTranscriptEntry(role, () => part.text);
      break;
    case 'reasoning':
      span.addTranscriptEntry('reasoning', () => part.text);
      break;
    case 'tool_call':
      span.addTranscriptEntry('tool_call', () => part.arguments, part.name);
      break;
    case 'tool_result': {
      const texts = part.parts.map((one) => (one.type === 'text' ? one.text : '(image)'));
      span.addTranscriptEntry('tool', () => texts.join('\n'), part.name);
      break;
    }
    // Binary data and reasoning that only its provider can read are left out.
    case 'image':
    case 'file':
    case 'encrypted_reasoning':
  }
}

/** Adds an answer to the transcript. Usage is recorded only if the answer is complete. */
export function recordAnswer(
  span: GatewaySpan | undefined,
  { recordedEvents = [], finishReason, usage }: AnswerTally,
): void {
  if (!span) return;
  if (recordedEvents.length > 0)
    for (const [, answer] of Map.groupBy(recordedEvents, ({ choice = 0 }) => choice))
      for (const { role, text, name } of transcriptEntriesOf(answer))
        span.addTranscriptEntry(role, () => text, name);
  if (finishReason === undefined) return;
  span.attributes.finish = finishReason;
  if (!usage) return;
  span.attributes.promptTokens = usage.fresh + usage.cacheWrite + usage.cacheWrite1h + usage.cacheRead;
  span.attributes.cachedTokens = usage.cacheRead;
  span.attributes.completionTokens = usage.output;
}

function transcriptEntriesOf(events: readonly AnswerEvent[]) {
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
