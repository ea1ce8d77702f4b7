import type { Sampling, Tokenizer } from '../../engine/index.ts';
import { invalidBodyError } from '../../http/violations.ts';
import type { BiasEntry } from '../../wires/core/logit-bias.ts';
import type { SamplingBody } from '../../wires/core/sampling-schema.ts';
import { unknownTokenMessage } from './encode.ts';

/** Sampling defaults of a wire. */
interface SamplingDefaults {
  readonly temperature: number;
  readonly top_k: number;
  readonly top_p: number;
  readonly min_p: number;
  /** Seed value that means a random seed. */
  readonly randomSeedValue?: number;
}
const openaiDefaults: SamplingDefaults = { temperature: 1, top_k: 0, top_p: 1, min_p: 0 };

/** Sampling members common to all wires. */
type SamplingMembers = Partial<Omit<SamplingBody, 'logit_bias' | 'stop'>> & {
  /** 0 disables the penalties. */
  readonly repeat_last_n?: number | null | undefined;
};

/**
 * Converts the sampling members of a request, except for biases.
 * @param randomSeed called where the request has no seed
 */
export function toEngineSampling(
  body: SamplingMembers,
  defaults: SamplingDefaults,
  randomSeed: () => number,
): Omit<Sampling, 'logitBias'> {
  const penalties = body.repeat_last_n === 0 ? {} : body;
  return {
    temperature: body.temperature ?? defaults.temperature,
    topK: Math.max(0, body.top_k ?? defaults.top_k),
    topP: body.top_p ?? defaults.top_p,
    minP: body.min_p ?? defaults.min_p,
    repetitionPenalty: penalties.repetition_penalty ?? penalties.repeat_penalty ?? 1,
    presencePenalty: penalties.presence_penalty ?? 0,
    frequencyPenalty: penalties.frequency_penalty ?? 0,
    seed:
      typeof body.seed === 'number' && body.seed !== defaults.randomSeedValue
        ? foldSeed(body.seed)
        : randomSeed(),
  };
}

/** Converts sampling members with OpenAI's defaults, including biases. */
export const toSampling = (
  body: Partial<SamplingBody>,
  tokenizer: BiasTokenizer,
  randomSeed: () => number,
): Sampling => ({
  ...toEngineSampling(body, openaiDefaults, randomSeed),
  logitBias: toLogitBias(body.logit_bias ?? [], tokenizer),
});

/** The low 32 bits of a 64-bit seed. */
const foldSeed = (seed: number): number => Number(BigInt.asUintN(32, BigInt(seed)));

type BiasTokenizer = Pick<Tokenizer, 'vocabSize' | 'encode'>;

/** Maps token ids to their bias; the last entry of a token counts. A text's bias is that of each of its tokens. */
export function toLogitBias(entries: readonly BiasEntry[], tokenizer: BiasTokenizer): Map<number, number> {
  const { vocabSize } = tokenizer;
  const unknown = entries.flatMap(([token, , path]) =>
    typeof token === 'number' && token >= vocabSize
      ? [{ path: `logit_bias.${path}`, message: unknownTokenMessage(token, vocabSize) }]
      : [],
  );
  if (unknown.length > 0) throw invalidBodyError(unknown);
  return new Map(
    entries.flatMap(([token, bias]) =>
      (typeof token === 'string' ? tokenizer.encode(token) : [token]).map((id) => [id, bias] as const),
    ),
  );
}

/**
 * Normalizes stop texts. Empty ones, which some wires accept, are dropped because they would end every answer at once.
 */
export const toStops = (stop: string | readonly string[] | null | undefined): readonly string[] =>
  (typeof stop === 'string' ? [stop] : (stop ?? [])).filter((text) => text !== '');
