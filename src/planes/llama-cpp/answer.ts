import type { Sampling } from '../../engine/index.ts';
import { invalidBody } from '../../http/violations.ts';
import type { AnswerBatches } from '../../wires/core/backend.ts';
import type { CompletionOptions } from '../../wires/llama-cpp/request-schema.ts';
import { type LlamaCppAbout, llamaCppWire } from '../../wires/llama-cpp/writer.ts';
import { answerShare } from '../turn/bounds.ts';
import { type Answering, answersAtOnce } from '../turn/choices.ts';
import { contextExceeded } from '../turn/encode.ts';
import { randomSeed } from '../turn/identity.ts';
import { respond, type RouteVisit } from '../turn/respond.ts';
import { sayTexts } from '../turn/said.ts';
import { toStops } from '../turn/sampling.ts';
import { sideBySide } from '../turn/side-by-side.ts';
import { Watcher } from '../turn/watched.ts';
import { type Job, run } from './run.ts';
import { toSampling, toSettings } from './settings.ts';

/** Prompts to answer, with the options. */
export interface Order {
  readonly answering: Answering;
  readonly prompts: readonly (readonly number[])[];
  readonly body: CompletionOptions;
  /** Whether the response is an array. */
  readonly several: boolean;
}

/** Answers all prompts, as one body or as server-sent events. */
export async function answer(order: Order, { signal, asHttpError, work }: RouteVisit): Promise<Response> {
  const { answering, prompts, body, several } = order;
  const { engine } = answering;
  sayTexts(work, engine.tokenizer, prompts);
  const jobs = toJobs(order);
  const watcher = new Watcher(work, { all: jobs.length, each: body.n_cmpl ?? 1 });
  const starts = jobs.map((job, choice) => () => run(job, { answering, choice, watcher, signal }));
  async function* events(): AnswerBatches {
    try {
      for await (const event of sideBySide(starts, answersAtOnce(engine), signal)) yield [event];
    } finally {
      watcher.end();
    }
  }
  const asked: LlamaCppAbout['asked'] = (choice) => {
    const { prompt, sampling, stop } = (jobs[choice] as Job).request;
    return {
      prompt: engine.tokenizer.decode(prompt, { special: true }),
      generation_settings: toSettings(body, { sampling, stop, engine }),
    };
  };
  const about = { model: engine.model.id, body, several, asked };
  return await respond(llamaCppWire, { events: events(), about }, { stream: body.stream, asHttpError });
}

/** Creates a job per answer. The answers of one prompt are adjacent and are sampled with different seeds. */
function toJobs({ answering: { engine }, prompts, body }: Order): Job[] {
  const { contextLength } = engine.model;
  const n = body.n_cmpl ?? 1;
  const wanted = (body.n_predict ?? -1) < 0 ? undefined : Math.max(1, body.n_predict ?? 1);
  const member = n > 1 ? 'n_cmpl' : 'prompt';
  const tokens = wanted === undefined ? undefined : Math.min(wanted, contextLength);
  const share = answerShare({ answers: prompts.length * n, member, tokens }, contextLength);
  const sampling = toSampling(body, engine, randomSeed);
  const more = { stop: toStops(body.stop), ...toGrammar(body) };
  return prompts.flatMap((prompt) => {
    const left = contextLength - prompt.length;
    if (left < 1) throw contextExceeded(contextLength, `the prompt has ${prompt.length}`, 'prompt');
    const maxTokens = Math.min(wanted ?? left, left, share);
    return Array.from({ length: n }, (_, k): Job => {
      const drawn: Sampling = { ...sampling, seed: (sampling.seed + k) >>> 0 };
      return {
        request: {
          prompt,
          maxTokens,
          sampling: drawn,
          ...more,
          ...(body.n_probs
            ? { logprobs: body.n_probs, postSampling: body.post_sampling_probs ?? false }
            : {}),
          ...(body.ignore_eos ? { ignoreEnd: true } : {}),
        },
        ends: { indent: body.n_indent ?? 0, milliseconds: Math.max(0, body.t_max_predict_ms ?? 0) },
        promptOnly: body.n_predict === 0,
        fillsContext: maxTokens === left && (wanted ?? Number.POSITIVE_INFINITY) > left,
      };
    });
  });
}

function toGrammar({ grammar, json_schema }: CompletionOptions): Pick<Job['request'], 'grammar'> {
  const schema = json_schema ?? undefined;
  if (!grammar) return schema ? { grammar: { kind: 'json_schema', schema } } : {};
  if (schema === undefined) return { grammar: { kind: 'ebnf', text: grammar } };
  const message = 'Either "json_schema" or "grammar" can be specified, but not both';
  throw invalidBody([{ path: 'grammar', message }]);
}
