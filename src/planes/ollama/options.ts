import type { GrammarSource } from '../../grammar/types.ts';
import type { GenerateRequest } from '../../engine/index.ts';
import { contextExceededError } from '../turn/encode.ts';
import { randomSeed } from '../turn/identity.ts';
import { toEngineSampling, toStops } from '../turn/sampling.ts';
import type { Format, Options } from '../../wires/ollama/options-schema.ts';

const samplingDefaults = { temperature: 0.8, top_k: 40, top_p: 0.9, min_p: 0, randomSeedValue: -1 };

/** Generation options of an answer. */
export interface GenerationOptions
  extends Pick<GenerateRequest, 'sampling' | 'stop' | 'ignoreEnd' | 'logprobs'> {
  /** Returns the maximum tokens of the answer for a prompt length. */
  readonly maxTokens: (promptTokens: number) => number;
}

/** Converts the options of a request. @param context the host's context length in tokens */
export function toGenerationOptions(
  options: Options,
  context: number,
  {
    logprobs,
    top_logprobs: top,
  }: { logprobs?: boolean | null | undefined; top_logprobs?: number | null | undefined },
  param: 'prompt' | 'messages',
): GenerationOptions {
  const { num_predict: requestedTokens, num_ctx: requestedContext } = options;
  const contextLength = Math.min(requestedContext || context, context);
  return {
    sampling: { ...toEngineSampling(options, samplingDefaults, randomSeed), logitBias: new Map() },
    stop: toStops(options.stop),
    ...(requestedTokens === -2 ? { ignoreEnd: true } : {}),
    ...(logprobs ? { logprobs: top ?? 0 } : {}),
    maxTokens(promptTokens) {
      const remaining = contextLength - promptTokens;
      if (remaining < 1) throw contextExceededError(contextLength, `the prompt has ${promptTokens}`, param);
      return typeof requestedTokens === 'number' && requestedTokens > 0
        ? Math.min(requestedTokens, remaining)
        : remaining;
    },
  };
}

export function toGrammar(format: Format): GrammarSource | undefined {
  if (format === null || format === undefined || format === '') return undefined;
  return format === 'json' ? { kind: 'json' } : { kind: 'json_schema', schema: format };
}
