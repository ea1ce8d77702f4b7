import type { FactsOf, Work, WorkKind } from '../../watch/index.ts';

/**
 * What is told of work beside its model: figures and names. A fact is only kept once it is listed here, so that none
 * which repeats what was said comes in by itself.
 */
const shown: { readonly [Kind in WorkKind]: readonly (keyof FactsOf[Kind])[] } = {
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

/** What callers and models call things: text that does not look like a name may be what was said. */
const claimed: ReadonlySet<string> = new Set(['requestedModel', 'tool', 'callId', 'finish']);
const nameLike = /^[\w.:/@+#-]{1,200}$/;

/** Names as JSON has them here, `prompt_tokens`; what is not known is absent. */
export function attributesOf(work: Work, subject: string): Record<string, unknown> {
  const facts = work.facts as unknown as Readonly<Record<string, unknown>>;
  const attributes: Record<string, unknown> = {};
  for (const name of shown[work.kind]) {
    const value = facts[name];
    if (claimed.has(name) && typeof value === 'string' && !nameLike.test(value)) continue;
    if (value !== undefined) attributes[snakeCase(name)] = typeof value === 'number' ? rounded(value) : value;
  }
  return {
    ...attributes,
    ...(work.id === subject ? {} : { id: work.id }),
    started_at: work.startedAt.toISOString(),
    total_ms: rounded(work.totalMs ?? 0),
    ...work.ending,
  };
}

const rounded = (value: number): number => Math.round(value * 1000) / 1000;

const snakeCase = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
