import type { Sampling } from '../../engine/index.ts';
import type { Work } from '../../watch/index.ts';
import { invalidBody } from '../../http/violations.ts';
import type { HttpError } from '../../http/error.ts';
import { serverSentEvents, sse, streamResponse } from '../../http/stream.ts';
import { answerShare } from '../turn/bounds.ts';
import { type Answering, answersAtOnce } from '../turn/choices.ts';
import { contextExceeded } from '../turn/encode.ts';
import { randomSeed } from '../turn/identity.ts';
import { sayTexts } from '../turn/said.ts';
import { toStops } from '../turn/sampling.ts';
import { sideBySide } from '../turn/side-by-side.ts';
import { watched } from '../turn/watched.ts';
import { AnswerWriter } from './answer.ts';
import type { CompletionAnswer } from './answer-schema.ts';
import { llamaEnvelope } from '../../wires/llama-cpp/error.ts';
import type { CompletionOptions } from './request-schema.ts';
import { type Job, run } from './run.ts';
import { toSampling } from './settings.ts';

/** Prompts to answer, and how. */
export interface Order {
  readonly answering: Answering;
  readonly prompts: readonly (readonly number[])[];
  readonly body: CompletionOptions;
  /** Whether the answer is an array. */
  readonly several: boolean;
}

interface Reading {
  readonly signal: AbortSignal;
  readonly asHttpError: (error: unknown) => HttpError;
  readonly work: Work<'completion'>;
}

/** Answers all prompts: as one body, or as server-sent events without a `[DONE]`. */
export async function respond(order: Order, { signal, asHttpError, work }: Reading): Promise<Response> {
  const { answering, prompts, body } = order;
  const { engine } = answering;
  sayTexts(work, engine.tokenizer, prompts);
  const jobs = toJobs(order);
  const starts = jobs.map((job) => () => run(answering, job, signal));
  const answers = { all: jobs.length, each: body.n_cmpl ?? 1 };
  const events = watched(work, sideBySide(starts, answersAtOnce(engine), signal), answers);
  const writers = jobs.map((job, index) => new AnswerWriter(index, job, body, engine));
  const writerOf = (choice: number) => writers[choice] as AnswerWriter;
  if (body.stream) {
    async function* frames(): AsyncGenerator<string, void, undefined> {
      for await (const event of events) {
        const writer = writerOf(event.choice);
        if (event.type === 'end') yield sse(writer.last(event));
        else for (const part of writer.parts(event)) yield sse(part);
      }
    }
    return await streamResponse(frames(), {
      contentType: serverSentEvents,
      failure: (error) => sse(llamaEnvelope(asHttpError(error))),
    });
  }
  const bodies: Partial<CompletionAnswer>[] = [];
  for await (const event of events) {
    const writer = writerOf(event.choice);
    if (event.type === 'end') bodies[event.choice] = writer.last(event);
    else if (event.type === 'text') writer.keep(event);
  }
  return Response.json(order.several || bodies.length > 1 ? bodies : bodies[0]);
}

/** An answer each; those of one prompt stand together and draw with seeds of their own. */
function toJobs({ answering: { engine }, prompts, body }: Order): Job[] {
  const { contextLength } = engine.model;
  const n = body.n_cmpl ?? 1;
  const wanted = (body.n_predict ?? -1) < 0 ? undefined : Math.max(1, body.n_predict ?? 1);
  const member = n > 1 ? 'n_cmpl' : 'prompt';
  const tokens = wanted === undefined ? undefined : Math.min(wanted, contextLength);
  const share = answerShare({ answers: prompts.length * n, member, tokens }, contextLength);
  const sampling = toSampling(body, engine, randomSeed);
  const more = { stop: toStops(body.stop).filter(isSomething), ...toGrammar(body) };
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

/** An empty text would end every answer at once. */
const isSomething = (text: string): boolean => text !== '';

function toGrammar({ grammar, json_schema }: CompletionOptions): Pick<Job['request'], 'grammar'> {
  const schema = json_schema ?? undefined;
  if (!grammar) return schema ? { grammar: { kind: 'json_schema', schema } } : {};
  if (schema === undefined) return { grammar: { kind: 'ebnf', text: grammar } };
  const message = 'Either "json_schema" or "grammar" can be specified, but not both';
  throw invalidBody([{ path: 'grammar', message }]);
}
