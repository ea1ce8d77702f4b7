import type { Sampling } from '../../engine/index.ts';
import { invalidBody } from '../../http/violations.ts';
import type { SamplingBody } from '../../wires/core/sampling-schema.ts';

/**
 * The sampling members of a request with OpenAI's defaults.
 * @param randomSeed called where the request has no seed
 */
export function toSampling(body: SamplingBody, vocabSize: number, randomSeed: () => number): Sampling {
  return {
    temperature: body.temperature ?? 1,
    topK: Math.max(0, body.top_k ?? 0),
    topP: body.top_p ?? 1,
    minP: body.min_p ?? 0,
    repetitionPenalty: body.repetition_penalty ?? body.repeat_penalty ?? 1,
    presencePenalty: body.presence_penalty ?? 0,
    frequencyPenalty: body.frequency_penalty ?? 0,
    logitBias: toLogitBias(body.logit_bias ?? {}, vocabSize),
    seed: typeof body.seed === 'number' ? foldSeed(body.seed) : randomSeed(),
  };
}

/** The low 32 bits of a 64-bit seed. */
export const foldSeed = (seed: number): number => Number(BigInt.asUintN(32, BigInt(seed)));

function toLogitBias(bias: Readonly<Record<string, number>>, vocabSize: number): Map<number, number> {
  const entries = Object.entries(bias).map(([id, amount]) => [Number(id), amount] as const);
  const unknown = entries.filter(([id]) => id >= vocabSize);
  if (unknown.length > 0) {
    const message = `no such token (the model has ids 0 to ${vocabSize - 1})`;
    throw invalidBody(unknown.map(([id]) => ({ path: `logit_bias.${id}`, message })));
  }
  return new Map(entries);
}

export function toStops(stop: string | readonly string[] | null | undefined): readonly string[] {
  if (stop === null || stop === undefined) return [];
  return typeof stop === 'string' ? [stop] : stop;
}
