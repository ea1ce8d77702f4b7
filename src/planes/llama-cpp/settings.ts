import type { Engine, Sampling } from '../../engine/index.ts';
import type { GenerationSettings } from '../../wires/llama-cpp/answer-schema.ts';
import type { CompletionOptions } from '../../wires/llama-cpp/request-schema.ts';
import { supportedSamplers } from '../../wires/llama-cpp/samplers.ts';
import { toEngineSampling, toLogitBias } from '../turn/sampling.ts';

/** llama.cpp's sampling defaults. */
const samplingDefaults = { temperature: 0.8, top_k: 40, top_p: 0.95, min_p: 0.05, randomSeedValue: -1 };

/** Options that disable each sampler, for samplers that are absent from `samplers`. */
const disabledSamplers = {
  penalties: { repeat_last_n: 0 },
  top_k: { top_k: 0 },
  top_p: { top_p: 1 },
  min_p: { min_p: 0 },
  temperature: { temperature: 1 },
};

/** Converts the sampling options of a request. @param randomSeed called where the request has no seed */
export function toSampling(body: CompletionOptions, engine: Engine, randomSeed: () => number): Sampling {
  const { enabled: used, isGreedy: likeliest } = body.samplers;
  const disabling = supportedSamplers.filter((name) => !used.has(name)).map((name) => disabledSamplers[name]);
  const sampling = toEngineSampling(
    Object.assign({}, body, ...disabling) as CompletionOptions,
    samplingDefaults,
    randomSeed,
  );
  return {
    ...sampling,
    temperature: likeliest ? 0 : Math.max(0, sampling.temperature),
    logitBias: toLogitBias(body.logit_bias, engine.tokenizer),
  };
}

/** The settings that were used, in llama.cpp's format. */
export function toSettings(
  body: CompletionOptions,
  { sampling, stop, engine }: { sampling: Sampling; stop: readonly string[]; engine: Engine },
): GenerationSettings {
  const hasPenalties = body.repeat_last_n !== 0 && body.samplers.enabled.has('penalties');
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
    repeat_last_n: hasPenalties ? -1 : 0,
    presence_penalty: sampling.presencePenalty,
    frequency_penalty: sampling.frequencyPenalty,
    dynatemp_range: 0,
    xtc_probability: 0,
    typical_p: 1,
    top_n_sigma: -1,
    dry_multiplier: 0,
    mirostat: 0,
    samplers: supportedSamplers.filter((name) => body.samplers.enabled.has(name)),
    stop: [...stop],
    ignore_eos: body.ignore_eos ?? false,
    logit_bias: [
      ...Array.from(sampling.logitBias, ([token, bias]) => ({ token, bias })),
      ...(body.ignore_eos ? Array.from(engine.tokenizer.endIds, (token) => ({ token, bias: null })) : []),
    ],
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
