import { z } from 'zod';
import type { Engine, Sampling } from '../../engine/index.ts';
import { foldSeed } from '../turn/sampling.ts';
import { toBias } from './logit-bias.ts';
import type { CompletionOptions } from './request-schema.ts';
import { ourSamplers } from './samplers.ts';

/** What llama.cpp takes where a request says nothing. */
const usual = { temperature: 0.8, top_k: 40, top_p: 0.95, min_p: 0.05 };

/** Where `samplers` leaves one out; it is the same as its idle value. */
const idle = { temperature: 1, top_k: 0, top_p: 1, min_p: 0 };

/** @param randomSeed called where the request has no seed */
export function toSampling(body: CompletionOptions, engine: Engine, randomSeed: () => number): Sampling {
  const { used, likeliest } = body.samplers;
  const chosen = (name: keyof typeof usual) => (used.has(name) ? (body[name] ?? usual[name]) : idle[name]);
  const penalised = used.has('penalties') && body.repeat_last_n !== 0;
  const penalty = (value: number | null | undefined, none: number) => (penalised ? (value ?? none) : none);
  const penalties = {
    repetitionPenalty: penalty(body.repeat_penalty, 1),
    presencePenalty: penalty(body.presence_penalty, 0),
    frequencyPenalty: penalty(body.frequency_penalty, 0),
  };
  return {
    temperature: likeliest ? 0 : Math.max(0, chosen('temperature')),
    topK: Math.max(0, chosen('top_k')),
    topP: chosen('top_p'),
    minP: chosen('min_p'),
    ...penalties,
    logitBias: toBias(body.logit_bias, engine.tokenizer),
    seed: typeof body.seed === 'number' && body.seed !== -1 ? foldSeed(body.seed) : randomSeed(),
  };
}

export const generationSettings = z
  .object({
    n_ctx: z.int(),
    model: z.string(),
    n_predict: z.int(),
    max_tokens: z.int(),
    seed: z.int().describe('What was drawn with.'),
    temperature: z.number(),
    top_k: z.int(),
    top_p: z.number(),
    min_p: z.number(),
    repeat_penalty: z.number(),
    repeat_last_n: z.int().describe('What was penalised: -1 the whole text, 0 nothing.'),
    presence_penalty: z.number(),
    frequency_penalty: z.number(),
    dynatemp_range: z.number(),
    xtc_probability: z.number(),
    typical_p: z.number(),
    top_n_sigma: z.number(),
    dry_multiplier: z.number(),
    mirostat: z.int(),
    samplers: z.array(z.string()),
    stop: z.array(z.string()),
    ignore_eos: z.boolean(),
    logit_bias: z.array(z.object({ token: z.int(), bias: z.number() })),
    n_probs: z.int(),
    min_keep: z.int(),
    grammar: z.string(),
    n_indent: z.int(),
    t_max_predict_ms: z.int(),
    stream: z.boolean(),
    timings_per_token: z.boolean(),
    post_sampling_probs: z.boolean(),
    lora: z.array(z.never()),
  })
  .meta({ id: 'LlamaCppGenerationSettings' });
export type GenerationSettings = z.infer<typeof generationSettings>;

/** The settings as llama.cpp writes them: what was really used. */
export function toSettings(
  body: CompletionOptions,
  { sampling, stop, engine }: { sampling: Sampling; stop: readonly string[]; engine: Engine },
): GenerationSettings {
  const penalised = body.repeat_last_n !== 0 && body.samplers.used.has('penalties');
  return {
    n_ctx: engine.model.contextLength,
    model: engine.model.id,
    n_predict: body.n_predict ?? -1,
    max_tokens: body.n_predict ?? -1,
    seed: sampling.seed,
    temperature: sampling.temperature,
    top_k: sampling.topK,
    top_p: sampling.topP,
    min_p: sampling.minP,
    repeat_penalty: sampling.repetitionPenalty,
    repeat_last_n: penalised ? -1 : 0,
    presence_penalty: sampling.presencePenalty,
    frequency_penalty: sampling.frequencyPenalty,
    dynatemp_range: 0,
    xtc_probability: 0,
    typical_p: 1,
    top_n_sigma: -1,
    dry_multiplier: 0,
    mirostat: 0,
    samplers: ourSamplers.filter((name) => body.samplers.used.has(name)),
    stop: [...stop],
    ignore_eos: body.ignore_eos ?? false,
    logit_bias: Array.from(sampling.logitBias, ([token, bias]) => ({ token, bias })),
    n_probs: body.n_probs ?? 0,
    min_keep: 0,
    grammar: body.grammar ?? '',
    n_indent: body.n_indent ?? 0,
    t_max_predict_ms: body.t_max_predict_ms ?? 0,
    stream: body.stream ?? false,
    timings_per_token: body.timings_per_token ?? false,
    post_sampling_probs: body.post_sampling_probs ?? false,
    lora: [],
  };
}
