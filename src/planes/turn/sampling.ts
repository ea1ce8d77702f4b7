import type { Sampling } from '../../engine/index.ts';
import { invalidBodyError } from '../../http/violations.ts';
import type { SamplingBody } from '../../wires/core/sampling-schema.ts';

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
type SamplingMembers = Omit<SamplingBody, 'logit_bias' | 'stop'> & {
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
export const toSampling = (body: SamplingBody, vocabSize: number, randomSeed: () => number): Sampling => ({
  ...toEngineSampling(body, openaiDefaults, randomSeed),
  logitBias: toLogitBias(body.logit_bias ?? {}, vocabSize),
});

/** The low 32 bits of a 64-bit seed. */
const foldSeed = (seed: number): number => Number(BigInt.asUintN(32, BigInt(seed)));

function toLogitBias(bias: Readonly<Record<string, number>>, vocabSize: number): Map<number, number> {
  const entries = Object.entries(bias).map(([id, amount]) => [Number(id), amount] as const);
  const unknown = entries.filter(([id]) => id >= vocabSize);
  if (unknown.length > 0) {
    const message = `no such token (the model has ids 0 to ${vocabSize - 1})`;
    throw invalidBodyError(unknown.map(([id]) => ({ path: `logit_bias.${id}`, message })));
  }
  return new Map(entries);
}

/**
 * Normalizes stop texts. Empty ones, which some wires accept, are dropped because they would end every answer at once.
 */
export const toStops = (stop: string | readonly string[] | null | undefined): readonly string[] =>
  (typeof stop === 'string' ? [stop] : (stop ?? [])).filter((text) => text !== '');
