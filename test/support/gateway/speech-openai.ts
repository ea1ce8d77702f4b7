import { frame } from './frames.ts';
import { plainFrames, type ResolvedAnswer, type Speech, withUsage } from './speech.ts';

const usageOf = ({ usage }: ResolvedAnswer) => ({
  prompt_tokens: usage.input,
  completion_tokens: usage.output,
  total_tokens: usage.input + usage.output,
  prompt_tokens_details: { cached_tokens: usage.cacheRead, cache_write_tokens: usage.cacheWrite },
  completion_tokens_details: { reasoning_tokens: usage.reasoning },
});

const callsOf = ({ calls }: ResolvedAnswer) =>
  calls.map(({ id, name, arguments: text }) => ({
    id,
    type: 'function',
    function: { name, arguments: text },
  }));

export const openAiError = (status: number, message: string): object => ({
  error: {
    message,
    type: status === 429 ? 'requests' : status >= 500 ? 'server_error' : 'invalid_request_error',
    param: null,
    code: status === 401 ? 'invalid_api_key' : status === 429 ? 'rate_limit_exceeded' : null,
  },
});

const created = 1_790_000_000;

export const chatSpeech: Speech = {
  error: openAiError,
  body: (say) => ({
    id: say.id,
    object: 'chat.completion',
    created,
    model: say.model,
    choices: [
      {
        index: 0,
        message: {
          role: 'assistant',
          content: say.text === '' && say.calls.length > 0 ? null : say.text,
          refusal: say.refusal ?? null,
          ...(say.reasoning === '' ? {} : { reasoning: say.reasoning }),
          ...(say.calls.length > 0 ? { tool_calls: callsOf(say) } : {}),
        },
        logprobs: null,
        finish_reason: say.finish,
      },
    ],
    ...(say.usageAt === 'missing' ? {} : { usage: usageOf(say) }),
  }),
  frames: (say, { stream_options: options }) => {
    const wanted = (options as { include_usage?: boolean } | undefined)?.include_usage === true;
    const chunk = (delta: object, finish: string | null = null) => ({
      id: say.id,
      object: 'chat.completion.chunk',
      created,
      model: say.model,
      choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }],
      ...(wanted ? { usage: null } : {}),
    });
    const chunks: object[] = [
      chunk({ role: 'assistant', content: '', refusal: null }),
      ...say.pieces(say.reasoning).map((reasoning) => chunk({ reasoning })),
      ...say.pieces(say.text).map((content) => chunk({ content })),
      ...say.pieces(say.refusal ?? '').map((refusal) => chunk({ refusal })),
      ...say.calls.flatMap(({ id, name, arguments: text }, index) => [
        chunk({ tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }] }),
        ...say
          .pieces(text)
          .map((piece) => chunk({ tool_calls: [{ index, function: { arguments: piece } }] })),
      ]),
      chunk({}, say.finish),
    ];
    const chunksWithUsage = withUsage(wanted ? say : { ...say, usageAt: 'missing' }, chunks, {
      on: (each) => ({ ...each, usage: usageOf(say) }),
      alone: () => ({ ...chunk({}), choices: [], usage: usageOf(say) }),
      usual: 'alone',
    });
    return [...plainFrames(chunksWithUsage), frame('[DONE]')];
  },
};

/** This wire knows no tools. */
const finishOf = ({ finish }: ResolvedAnswer) => (finish === 'tool_calls' ? 'stop' : finish);

export const completionsSpeech: Speech = {
  error: openAiError,
  body: (say) => ({
    id: say.id,
    object: 'text_completion',
    created,
    model: say.model,
    choices: [{ index: 0, text: say.text, logprobs: null, finish_reason: finishOf(say) }],
    ...(say.usageAt === 'missing' ? {} : { usage: usageOf(say) }),
  }),
  frames: (say, { stream_options: options }) => {
    const wanted = (options as { include_usage?: boolean } | undefined)?.include_usage === true;
    const chunk = (text: string, finish: string | null = null) => ({
      id: say.id,
      object: 'text_completion',
      created,
      model: say.model,
      choices: [{ index: 0, text, logprobs: null, finish_reason: finish }],
      ...(wanted ? { usage: null } : {}),
    });
    const chunks: object[] = [...say.pieces(say.text).map((text) => chunk(text)), chunk('', finishOf(say))];
    const chunksWithUsage = withUsage(wanted ? say : { ...say, usageAt: 'missing' }, chunks, {
      on: (each) => ({ ...each, usage: usageOf(say) }),
      alone: () => ({ ...chunk(''), choices: [], usage: usageOf(say) }),
      usual: 'alone',
    });
    return [...plainFrames(chunksWithUsage), frame('[DONE]')];
  },
};

/** Floats, also where base64 was asked for: the providers that do so are the reason for the gateway's own coding. */
export const embeddingsSpeech: Speech = {
  error: openAiError,
  body: (say, { input }) => {
    const inputs = Array.isArray(input) && typeof input[0] !== 'number' ? input.length : 1;
    const vectors = say.vectors ?? Array.from({ length: inputs }, (_, index) => [index + 0.5, -0.25, 1e-3]);
    return {
      object: 'list',
      data: vectors.map((embedding, index) => ({ object: 'embedding', index, embedding })),
      model: say.model,
      ...(say.usageAt === 'missing'
        ? {}
        : { usage: { prompt_tokens: say.usage.input, total_tokens: say.usage.input } }),
    };
  },
  frames: () => {
    throw new Error('embeddings are never streamed');
  },
};
