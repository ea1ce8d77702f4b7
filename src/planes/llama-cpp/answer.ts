import type { Sampling } from '../../engine/index.ts';
import { invalidBodyError } from '../../http/violations.ts';
import type { AnswerBatches } from '../../wires/core/backend.ts';
import type { CompletionOptions } from '../../wires/llama-cpp/request-schema.ts';
import { cacheOption } from '../../wires/core/sampling-schema.ts';
import { type LlamaCppAnswerMetadata, llamaCppWire } from '../../wires/llama-cpp/writer.ts';
import { maxTokensPerAnswer } from '../turn/answer-limits.ts';
import { type GenerationResources, maxConcurrentAnswers } from '../turn/choices.ts';
import { contextExceededError } from '../turn/encode.ts';
import { randomSeed } from '../turn/identity.ts';
import { respond, type RouteCompletionContext } from '../turn/respond.ts';
import { recordTexts } from '../turn/transcript.ts';
import { toStops } from '../turn/sampling.ts';
import { runConcurrently } from '../turn/run-concurrently.ts';
import { AnswerTracer } from '../turn/answer-tracer.ts';
import { type AnswerJob, generateAnswer } from './generate-answer.ts';
import { toSampling, toSettings } from './settings.ts';

/** Prompts to answer, with the options. */
export interface AnswerRequest {
  readonly resources: GenerationResources;
  readonly prompts: readonly (readonly number[])[];
  readonly body: CompletionOptions;
  /** Whether the response is an array. */
  readonly isArray: boolean;
}

/** Answers all prompts, as one body or as server-sent events. */
export async function answer(
  answerRequest: AnswerRequest,
  { signal, asHttpError, span }: RouteCompletionContext,
): Promise<Response> {
  const { resources, prompts, body, isArray } = answerRequest;
  const { engine } = resources;
  recordTexts(span, engine.tokenizer, prompts);
  const jobs = toJobs(answerRequest);
  const tracer = new AnswerTracer(span, { total: jobs.length, answersPerPrompt: body.n_cmpl ?? 1 });
  const generations = jobs.map(
    (job, choice) => () => generateAnswer(job, { resources, choice, tracer, signal }),
  );
  async function* events(): AnswerBatches {
    try {
      for await (const event of runConcurrently(generations, maxConcurrentAnswers(engine), signal))
        yield [event];
    } finally {
      tracer.end();
    }
  }
  const requestMembers: LlamaCppAnswerMetadata['requestMembers'] = (choice) => {
    const { prompt, sampling, stop } = (jobs[choice] as AnswerJob).request;
    return {
      prompt: engine.tokenizer.decode(prompt, { special: true }),
      generation_settings: toSettings(body, { sampling, stop, engine }),
    };
  };
  const metadata = { model: engine.model.id, body, isArray, requestMembers };
  const seed = jobs[0]?.request.sampling.seed ?? 0;
  return await respond(
    llamaCppWire,
    { events: events(), metadata, seed },
    { stream: body.stream, asHttpError },
  );
}

/** Creates a job per answer. The answers of one prompt are adjacent and are sampled with different seeds. */
function toJobs({ resources: { engine }, prompts, body }: AnswerRequest): AnswerJob[] {
  const { contextLength } = engine.model;
  const n = body.n_cmpl ?? 1;
  const requestedTokens = (body.n_predict ?? -1) < 0 ? undefined : Math.max(1, body.n_predict ?? 1);
  const member = n > 1 ? 'n_cmpl' : 'prompt';
  const tokens = requestedTokens === undefined ? undefined : Math.min(requestedTokens, contextLength);
  const answerMaxTokens = maxTokensPerAnswer({ answers: prompts.length * n, member, tokens }, contextLength);
  const sampling = toSampling(body, engine, randomSeed);
  const commonRequest = { stop: toStops(body.stop), ...toGrammar(body) };
  return prompts.flatMap((prompt) => {
    const remaining = contextLength - prompt.length;
    if (remaining < 1)
      throw contextExceededError(contextLength, `the prompt has ${prompt.length}`, 'prompt', prompt.length);
    const maxTokens = Math.min(requestedTokens ?? remaining, remaining, answerMaxTokens);
    return Array.from({ length: n }, (_, k): AnswerJob => {
      const answerSampling: Sampling = { ...sampling, seed: (sampling.seed + k) >>> 0 };
      return {
        request: {
          prompt,
          maxTokens,
          sampling: answerSampling,
          ...commonRequest,
          ...(body.n_probs
            ? { logprobs: body.n_probs, postSampling: body.post_sampling_probs ?? false }
            : {}),
          ...(body.ignore_eos ? { ignoreEnd: true } : {}),
          ...cacheOption(body),
        },
        earlyStop: { indent: body.n_indent ?? 0, maxDurationMs: Math.max(0, body.t_max_predict_ms ?? 0) },
        isPromptOnly: body.n_predict === 0,
        fillsContext: maxTokens === remaining && (requestedTokens ?? Number.POSITIVE_INFINITY) > remaining,
      };
    });
  });
}

function toGrammar({ grammar, json_schema }: CompletionOptions): Pick<AnswerJob['request'], 'grammar'> {
  const schema = json_schema ?? undefined;
  if (!grammar) return schema ? { grammar: { kind: 'json_schema', schema } } : {};
  if (schema === undefined) return { grammar: { kind: 'ebnf', text: grammar } };
  const message = 'Either "json_schema" or "grammar" can be specified, but not both';
  throw invalidBodyError([{ path: 'grammar', message }]);
}
