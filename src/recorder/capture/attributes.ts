import type { SpanAttributes, TraceSpan, TraceSpanKind } from '../../tracing/index.ts';

/**
 * Facts of each kind of span that are recorded as attributes: numbers and names. Facts that are not listed are not
 * recorded, so that a new fact with conversation content is not recorded by accident.
 */
const recordedFacts: { readonly [Kind in TraceSpanKind]: readonly (keyof SpanAttributes[Kind])[] } = {
  completion: [
    'wire',
    'operation',
    'by',
    'stream',
    'requestedModel',
    'answers',
    'promptTokens',
    'cachedTokens',
    'completionTokens',
    'firstTokenMs',
    'queuedMs',
    'prefillMs',
    'decodeMs',
    'finish',
  ],
  task: ['agent', 'by', 'engine', 'turns', 'promptTokens', 'completionTokens'],
  run: ['workflow'],
  step: ['workflow', 'step', 'agent', 'attempts'],
  turn: ['agent', 'engine', 'promptTokens', 'completionTokens', 'firstTokenMs', 'finish', 'calls'],
  tool: ['tool', 'agent', 'callId', 'toolKind', 'staged'],
  gateway: [
    'wire',
    'operation',
    'stream',
    'keyId',
    'accountId',
    'requestedModel',
    'provider',
    'promptTokens',
    'cachedTokens',
    'completionTokens',
    'costNanousd',
    'firstTokenMs',
    'finish',
  ],
};

/**
 * Names that clients and models choose. A value that does not look like a name may be conversation content and is
 * dropped.
 */
const untrustedFacts: ReadonlySet<string> = new Set(['requestedModel', 'tool', 'callId', 'finish']);
const nameLike = /^[\w.:/@+#-]{1,200}$/;

/** Attributes of a span with names in snake_case. Unknown facts are absent. */
export function spanAttributes(work: TraceSpan, subject: string): Record<string, unknown> {
  const facts = work.attributes as unknown as Readonly<Record<string, unknown>>;
  const attributes: Record<string, unknown> = {};
  for (const name of recordedFacts[work.kind]) {
    const value = facts[name];
    if (untrustedFacts.has(name) && typeof value === 'string' && !nameLike.test(value)) continue;
    if (value !== undefined)
      attributes[snakeCase(name)] = typeof value === 'number' ? roundToMicroseconds(value) : value;
  }
  return {
    ...attributes,
    ...(work.id === subject ? {} : { id: work.id }),
    started_at: work.startedAt.toISOString(),
    total_ms: roundToMicroseconds(work.totalMs ?? 0),
    ...work.result,
  };
}

const roundToMicroseconds = (value: number): number => Math.round(value * 1000) / 1000;

const snakeCase = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
