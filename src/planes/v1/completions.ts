import type { Engine, GenerateRequest, Usage } from '../../engine/index.ts';
import { invalidBody } from '../body.ts';
import { openaiError } from '../error-schema.ts';
import { Problem } from '../problem.ts';
import type { Resident } from '../resident.ts';
import { defineRoute } from '../route.ts';
import type { Served } from '../served.ts';
import {
  type Completion,
  type CompletionChunk,
  type CompletionRequest,
  completion,
  completionChunk,
  completionRequest,
} from './completions-schema.ts';
import { answerLimit, refuseOverlong } from '../turn/encode.ts';
import { eventStream } from './event-stream.ts';
import { collect, generate } from '../turn/generation.ts';
import { answerHead, randomSeed, requireKind, requireModel } from '../turn/identity.ts';
import { toSampling, toStops } from '../turn/sampling.ts';
import { toUsage } from './usage.ts';

type Head = ReturnType<typeof answerHead> & { object: 'text_completion' };

/** One prompt: what to generate, and the text that `echo` puts before the answer. */
interface Job {
  readonly request: GenerateRequest;
  readonly echo: string;
}

export function completionsRoute(resident: Resident, served: Served) {
  return defineRoute({
    method: 'POST',
    path: '/v1/completions',
    operationId: 'createCompletion',
    summary: 'Continue a text',
    description:
      "OpenAI's legacy completions, buffered or as server-sent events. Several prompts are answered one after another; a choice's index is its prompt's.",
    body: completionRequest,
    answers: {
      200: {
        description: 'The answer; with `stream`, chunks as events and then `[DONE]`.',
        content: { 'application/json': completion, 'text/event-stream': completionChunk },
      },
      404: { description: 'No such model.', content: { 'application/json': openaiError } },
      429: {
        description: 'The queue is full; `Retry-After` tells when to come back.',
        content: { 'application/json': openaiError },
      },
      503: {
        description: 'No resident model, or it is loading, or the GPU was lost.',
        content: { 'application/json': openaiError },
      },
    },
    async handle({ body, signal, asProblem }) {
      const { engine } = resident.require();
      requireModel(body.model, engine.model);
      requireKind(engine.model, 'generate');
      const jobs = await toJobs(engine, body);
      const head: Head = { ...answerHead('cmpl', engine.model), object: 'text_completion' };
      if (body.stream) {
        const includeUsage = body.stream_options?.include_usage === true;
        return await eventStream(
          completionChunks(engine, jobs, head, includeUsage, signal, served),
          asProblem,
        );
      }
      const choices: Completion['choices'] = [];
      const usages: Usage[] = [];
      for (const [index, { request, echo }] of jobs.entries()) {
        const { text, finishReason, usage } = await collect(generate(engine, request, signal));
        choices.push({ index, text: echo + text, logprobs: null, finish_reason: finishReason });
        usages.push(usage);
      }
      const usage = toUsage(usages);
      served.buffered(usage);
      const answer: Completion = { ...head, choices, usage };
      return Response.json(answer);
    },
  });
}

async function* completionChunks(
  engine: Engine,
  jobs: readonly Job[],
  head: Head,
  includeUsage: boolean,
  signal: AbortSignal,
  served: Served,
): AsyncGenerator<CompletionChunk, void, undefined> {
  const chunk = (
    choices: CompletionChunk['choices'],
    usage: CompletionChunk['usage'] = null,
  ): CompletionChunk => ({
    ...head,
    choices,
    ...(includeUsage ? { usage } : {}),
  });
  const usages: Usage[] = [];
  for (const [index, { request, echo }] of jobs.entries()) {
    const piece = (text: string, finish_reason: 'stop' | 'length' | null = null) =>
      chunk([{ index, text, logprobs: null, finish_reason }]);
    let begun = false;
    for await (const event of generate(engine, request, signal)) {
      if (!begun && echo !== '') yield piece(echo);
      begun = true;
      if (event.type === 'text' && event.text !== '') yield piece(event.text);
      if (event.type === 'end') {
        usages.push(event.usage);
        yield piece('', event.finishReason);
      }
    }
  }
  if (includeUsage) yield chunk([], toUsage(usages));
  served.streamed();
}

/** Every prompt encoded and checked before the first one runs. */
async function toJobs(engine: Engine, body: CompletionRequest): Promise<Job[]> {
  const { tokenizer, model } = engine;
  const sampling = toSampling(body, tokenizer.vocabSize, randomSeed);
  const stop = toStops(body.stop);
  const jobs: Job[] = [];
  for (const [index, prompt] of toPrompts(body.prompt).entries()) {
    const ids = typeof prompt === 'string' ? await encodeText(engine, prompt) : prompt;
    const path =
      Array.isArray(body.prompt) && typeof body.prompt[0] !== 'number' ? `prompt.${index}` : 'prompt';
    const stranger = ids.find((id) => id >= tokenizer.vocabSize);
    if (stranger !== undefined) {
      throw invalidBody([
        { path, message: `no such token: ${stranger} (the model has ids 0 to ${tokenizer.vocabSize - 1})` },
      ]);
    }
    const maxTokens = answerLimit(ids.length, model.contextLength, 'prompt', body.max_tokens, 16);
    const shown = () => (typeof prompt === 'string' ? prompt : tokenizer.decode(prompt, { special: true }));
    jobs.push({ request: { prompt: ids, maxTokens, sampling, stop }, echo: body.echo ? shown() : '' });
  }
  return jobs;
}

function toPrompts(prompt: CompletionRequest['prompt']): readonly (string | readonly number[])[] {
  if (typeof prompt === 'string') return [prompt];
  return typeof prompt[0] === 'number' ? [prompt as number[]] : (prompt as string[] | number[][]);
}

async function encodeText({ tokenizer, model }: Engine, text: string): Promise<readonly number[]> {
  const options = { parseSpecial: true };
  await refuseOverlong(tokenizer, text, model.contextLength, 'prompt', options);
  const ids = tokenizer.encode(text, { ...options, addSpecial: true });
  if (ids.length > 0) return ids;
  // A model without BOS has nothing to begin an empty text with.
  if (tokenizer.bosId !== undefined) return [tokenizer.bosId];
  throw new Problem(400, 'invalid_value', 'prompt: must not be empty for this model.', { param: 'prompt' });
}
