import { plainFrames, type ResolvedAnswer, type Speech, withUsage } from './speech.ts';

const usageOf = ({ usage }: ResolvedAnswer) => ({
  usageMetadata: {
    promptTokenCount: usage.input,
    candidatesTokenCount: usage.output - usage.reasoning,
    totalTokenCount: usage.input + usage.output,
    ...(usage.cacheRead > 0 ? { cachedContentTokenCount: usage.cacheRead } : {}),
    ...(usage.reasoning > 0 ? { thoughtsTokenCount: usage.reasoning } : {}),
  },
});

const finishOf = (say: ResolvedAnswer) =>
  ({ stop: 'STOP', tool_calls: 'STOP', length: 'MAX_TOKENS', content_filter: 'SAFETY' })[say.finish];

const partsOf = (say: ResolvedAnswer, pieces: (text: string) => string[]): Record<string, unknown>[] => {
  const parts: Record<string, unknown>[] = [
    ...pieces(say.reasoning).map((text) => ({ text, thought: true })),
    ...pieces(say.text).map((text) => ({ text })),
    ...say.calls.map(({ name, arguments: text }) => ({
      functionCall: { name, args: JSON.parse(text === '' ? '{}' : text) as unknown },
    })),
  ];
  const signed = parts.findIndex((part) => part['thought'] !== true);
  return parts.map((part, index) =>
    index === signed && say.signature !== undefined ? { ...part, thoughtSignature: say.signature } : part,
  );
};

const chunk = (say: ResolvedAnswer, parts: readonly object[], finish?: string) => ({
  candidates: [
    {
      content: { parts, role: 'model' },
      ...(finish === undefined ? {} : { finishReason: finish }),
      index: 0,
    },
  ],
  modelVersion: say.model,
  responseId: say.id,
});

const states: Readonly<Record<number, string>> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  429: 'RESOURCE_EXHAUSTED',
  500: 'INTERNAL',
  503: 'UNAVAILABLE',
};

const error: Speech['error'] = (status, message) => ({
  error: { code: status, message, status: states[status] ?? 'UNKNOWN' },
});

export const googleSpeech: Speech = {
  error,
  body: (say) => ({
    ...chunk(
      say,
      partsOf(say, (text) => (text === '' ? [] : [text])),
      finishOf(say),
    ),
    ...(say.usageAt === 'missing' ? {} : usageOf(say)),
  }),
  frames: (say) => {
    const chunks: object[] = [
      ...partsOf(say, say.pieces).map((part) => chunk(say, [part])),
      chunk(say, [{ text: '' }], finishOf(say)),
    ];
    const chunksWithUsage = withUsage(say, chunks, {
      on: (each) => ({ ...each, ...usageOf(say) }),
      alone: () => ({ ...usageOf(say), modelVersion: say.model, responseId: say.id }),
      usual: 'always',
    });
    return plainFrames(chunksWithUsage);
  },
};

export const googleEmbeddingsSpeech: Speech = {
  error,
  body: (say, { requests }) => ({
    embeddings: (
      say.vectors ?? (requests as readonly unknown[]).map((_, index) => [index + 0.5, -0.25, 1e-3])
    ).map((values) => ({ values })),
    ...(say.usageAt === 'missing' ? {} : { usageMetadata: { promptTokenCount: say.usage.input } }),
  }),
  frames: () => {
    throw new Error('embeddings are never streamed');
  },
};
