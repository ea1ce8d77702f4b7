import type { GrammarSource } from '../../grammar/types.ts';
import type { GenerateRequest } from '../../engine/index.ts';
import { contextExceeded } from '../turn/encode.ts';
import { randomSeed } from '../turn/identity.ts';
import { steered, toStops } from '../turn/sampling.ts';
import type { Format, Options } from '../../wires/ollama/options-schema.ts';

const usual = { temperature: 0.8, top_k: 40, top_p: 0.9, min_p: 0, anySeed: -1 };

/** Generation options of an answer. */
export interface Drawing extends Pick<GenerateRequest, 'sampling' | 'stop' | 'ignoreEnd' | 'logprobs'> {
  /** Returns the maximum tokens of the answer for a prompt length. */
  readonly maxTokens: (promptTokens: number) => number;
}

/** Converts the options of a request. @param context the host's context length in tokens */
export function toDrawing(
  given: Options,
  context: number,
  {
    logprobs,
    top_logprobs: top,
  }: { logprobs?: boolean | null | undefined; top_logprobs?: number | null | undefined },
  param: 'prompt' | 'messages',
): Drawing {
  const { num_predict: wanted, num_ctx: asked } = given;
  const room = Math.min(asked || context, context);
  return {
    sampling: { ...steered(given, usual, randomSeed), logitBias: new Map() },
    stop: toStops(given.stop),
    ...(wanted === -2 ? { ignoreEnd: true } : {}),
    ...(logprobs ? { logprobs: top ?? 0 } : {}),
    maxTokens(promptTokens) {
      const left = room - promptTokens;
      if (left < 1) throw contextExceeded(room, `the prompt has ${promptTokens}`, param);
      return typeof wanted === 'number' && wanted > 0 ? Math.min(wanted, left) : left;
    },
  };
}

export function toGrammar(format: Format): GrammarSource | undefined {
  if (format === null || format === undefined || format === '') return undefined;
  return format === 'json' ? { kind: 'json' } : { kind: 'json_schema', schema: format };
}
