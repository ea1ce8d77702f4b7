import type { GrammarSource } from '../../grammar/types.ts';
import type { GenerateRequest, Sampling } from '../../engine/index.ts';
import { contextExceeded } from '../turn/encode.ts';
import { randomSeed } from '../turn/identity.ts';
import { foldSeed, toStops } from '../turn/sampling.ts';
import type { Format, Options } from '../../wires/ollama/options-schema.ts';

/** How an answer is drawn. */
export interface Drawing extends Pick<GenerateRequest, 'sampling' | 'stop' | 'ignoreEnd' | 'logprobs'> {
  /** Tokens that the answer may have behind a prompt of so many. */
  readonly maxTokens: (promptTokens: number) => number;
}

/** @param context tokens that a sequence may hold here */
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
    sampling: toSampling(given),
    // An empty one would end every answer at once.
    stop: toStops(given.stop).filter((text) => text !== ''),
    ...(wanted === -2 ? { ignoreEnd: true } : {}),
    ...(logprobs ? { logprobs: top ?? 0 } : {}),
    maxTokens(promptTokens) {
      const left = room - promptTokens;
      if (left < 1) throw contextExceeded(room, `the prompt has ${promptTokens}`, param);
      return typeof wanted === 'number' && wanted > 0 ? Math.min(wanted, left) : left;
    },
  };
}

function toSampling(given: Options): Sampling {
  const penalized = given.repeat_last_n !== 0;
  return {
    temperature: given.temperature ?? 0.8,
    topK: Math.max(0, given.top_k ?? 40),
    topP: given.top_p ?? 0.9,
    minP: given.min_p ?? 0,
    repetitionPenalty: penalized ? (given.repeat_penalty ?? 1) : 1,
    presencePenalty: penalized ? (given.presence_penalty ?? 0) : 0,
    frequencyPenalty: penalized ? (given.frequency_penalty ?? 0) : 0,
    logitBias: new Map(),
    seed: seedOf(given.seed),
  };
}

/** -1 is Ollama's way to ask for any. */
const seedOf = (seed: number | null | undefined): number =>
  typeof seed === 'number' && seed !== -1 ? foldSeed(seed) : randomSeed();

export function toGrammar(format: Format): GrammarSource | undefined {
  if (format === null || format === undefined || format === '') return undefined;
  return format === 'json' ? { kind: 'json' } : { kind: 'json_schema', schema: format };
}
