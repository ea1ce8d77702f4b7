import { invalidBody } from '../../http/violations.ts';
import { openaiError } from '../error-schema.ts';
import type { Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import { type ChoiceEvent, startChoices } from '../turn/choices.ts';
import { headOf } from '../../wires/chat/resident-form.ts';
import { writtenUsage } from '../../wires/chat/usage.ts';
import { aboutOf } from '../turn/respond.ts';
import { sayTexts } from '../turn/said.ts';
import { toSharedTimings } from '../turn/timings.ts';
import { toUsage } from '../turn/usage.ts';
import { watched } from '../turn/watched.ts';
import { chunkStream } from './chunk-stream.ts';
import { CompletionCollector, type CompletionForm, toChunkChoices } from './completions-answer.ts';
import { answersMade, completionViolations, toJobs } from './completions-input.ts';
import { completion, completionChunk, completionRequest } from './completions-schema.ts';
import { eventStream } from './event-stream.ts';
import { namingGrammar } from './grammar-refusal.ts';
import { toOutput } from './output-schema.ts';

export function completionsRoute(resident: Resident) {
  return defineRoute({
    method: 'POST',
    path: '/v1/completions',
    operationId: 'createCompletion',
    summary: 'Continue a text',
    description:
      "OpenAI's legacy completions, buffered or as server-sent events. Prompts are answered side by side; the k-th answer to the i-th prompt is the choice `i * n + k`. Unknown members are ignored.",
    body: completionRequest,
    completion: { wire: 'completions', operation: 'text_completion' },
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
      501: {
        description: 'A `suffix`, and a model that cannot fill in the middle.',
        content: { 'application/json': openaiError },
      },
      503: {
        description: 'No resident model, or it is loading, or the GPU was lost.',
        content: { 'application/json': openaiError },
      },
    },
    async handle({ body, signal, over, asHttpError, work }) {
      const ready = await resident.use(body.model, { signal, over, work }, 'generate');
      const { engine } = ready;
      const wrong = completionViolations(body);
      if (wrong.length > 0) throw invalidBody(wrong);
      const jobs = await toJobs(engine, body);
      const made = answersMade(body);
      const requests = jobs.map(({ request }) => request);
      sayTexts(
        work,
        engine.tokenizer,
        requests.map(({ prompt }) => prompt),
      );
      const choices = await startChoices(ready, requests, signal).catch((error: unknown) => {
        throw namingGrammar(error, () => toOutput(body)?.member ?? 'prompt');
      });
      const events = watched(work, choices, { all: jobs.length * made, each: made });
      const about = aboutOf(engine.model, { body, facts: { includeUsage: false, answers: made } });
      const head = headOf(about, 'text_completion', 'cmpl');
      const logprobs = typeof body.logprobs === 'number';
      const form: CompletionForm = { jobs, made, tokenizer: engine.tokenizer, logprobs };
      if (body.stream) {
        const chunks = chunkStream(events, {
          head,
          toChoices: toChunkChoices(form),
          answers: made,
          body,
        });
        return await eventStream(chunks, asHttpError);
      }
      const collector = new CompletionCollector(form);
      const ends: Extract<ChoiceEvent, { type: 'end' }>[] = [];
      for await (const event of events) {
        collector.take(event);
        if (event.type === 'end') ends.push(event);
      }
      const usage = writtenUsage(toUsage(ends, made));
      const timings = toSharedTimings(ends, made);
      return Response.json({ ...head, choices: collector.choices(body.n ?? 1), usage, timings });
    },
  });
}
