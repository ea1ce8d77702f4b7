import type { Sampling } from '../../engine/index.ts';
import { invalidBody } from '../../http/violations.ts';
import type { SamplingBody } from '../../wires/core/sampling-schema.ts';

/** Sampling defaults of a wire. */
interface Usual {
  readonly temperature: number;
  readonly top_k: number;
  readonly top_p: number;
  readonly min_p: number;
  /** Seed value that means a random seed. */
  readonly anySeed?: number;
}
const openai: Usual = { temperature: 1, top_k: 0, top_p: 1, min_p: 0 };

/** Sampling members common to all wires. */
type Steering = Omit<SamplingBody, 'logit_bias' | 'stop'> & {
  /** 0 disables the penalties. */
  readonly repeat_last_n?: number | null | undefined;
};

/**
 * Converts the sampling members of a request, except for biases.
 * @param randomSeed called where the request has no seed
 */
export function steered(body: Steering, usual: Usual, randomSeed: () => number): Omit<Sampling, 'logitBias'> {
  const penalties = body.repeat_last_n === 0 ? {} : body;
  return {
    temperature: body.temperature ?? usual.temperature,
    topK: Math.max(0, body.top_k ?? usual.top_k),
    topP: body.top_p ?? usual.top_p,
    minP: body.min_p ?? usual.min_p,
    repetitionPenalty: penalties.repetition_penalty ?? penalties.repeat_penalty ?? 1,
    presencePenalty: penalties.presence_penalty ?? 0,
    frequencyPenalty: penalties.frequency_penalty ?? 0,
    seed: typeof body.seed === 'number' && body.seed !== usual.anySeed ? foldSeed(body.seed) : randomSeed(),
  };
}

/** Converts sampling members with OpenAI's defaults, including biases. */
export const toSampling = (body: SamplingBody, vocabSize: number, randomSeed: () => number): Sampling => ({
  ...steered(body, openai, randomSeed),
  logitBias: toLogitBias(body.logit_bias ?? {}, vocabSize),
});

/** The low 32 bits of a 64-bit seed. */
const foldSeed = (seed: number): number => Number(BigInt.asUintN(32, BigInt(seed)));

function toLogitBias(bias: Readonly<Record<string, number>>, vocabSize: number): Map<number, number> {
  const entries = Object.entries(bias).map(([id, amount]) => [Number(id), amount] as const);
  const unknown = entries.filter(([id]) => id >= vocabSize);
  if (unknown.length > 0) {
    const message = `no such token (the model has ids 0 to ${vocabSize - 1})`;
    throw invalidBody(unknown.map(([id]) => ({ path: `logit_bias.${id}`, message })));
  }
  return new Map(entries);
}

/**
 * Normalizes stop texts. Empty ones, which some wires accept, are dropped because they would end every answer at once.
 */
export const toStops = (stop: string | readonly string[] | null | undefined): readonly string[] =>
  (typeof stop === 'string' ? [stop] : (stop ?? [])).filter((text) => text !== '');
