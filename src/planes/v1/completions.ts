import { invalidBodyError } from '../../http/violations.ts';
import { openaiErrorResponse, openaiErrorResponses } from '../error-schema.ts';
import type { Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import { startChoices } from '../turn/choices.ts';
import { completionsWire } from '../../wires/completions/client.ts';
import { createAnswerMetadata, type AnswerStream, respond, type CompletionContext } from '../turn/respond.ts';
import { recordTexts } from '../turn/transcript.ts';
import { streamTextAnswers } from '../turn/text-answers.ts';
import { generatedPerPrompt, findCompletionViolations, toJobs } from './completions-input.ts';
import {
  completion,
  completionChunk,
  type CompletionRequest,
  completionRequest,
} from '../../wires/completions/server-schema.ts';
import { withGrammarMember } from './grammar-error.ts';
import { toOutputConstraint } from './output.ts';

export function completionsRoute(resident: Resident) {
  return defineRoute({
    method: 'POST',
    path: '/v1/completions',
    operationId: 'createCompletion',
    summary: 'Continue a text',
    description:
      "OpenAI's legacy completions, buffered or as server-sent events. Prompts are answered concurrently; the k-th answer to the i-th prompt is the choice `i * n + k`. Unknown members are ignored.",
    body: completionRequest,
    completion: { wire: 'completions', operation: 'text_completion' },
    responses: {
      200: {
        description: 'The answer; with `stream`, chunks as events and then `[DONE]`.',
        content: { 'application/json': completion, 'text/event-stream': completionChunk },
      },
      ...openaiErrorResponses,
      501: openaiErrorResponse(
        'The request has a `suffix`, but the model does not support fill-in-the-middle.',
      ),
    },
    async handle({ body, asHttpError, ...context }) {
      const answerStream = await answerTexts(resident, body, context);
      return await respond(completionsWire, answerStream, { stream: body.stream, asHttpError });
    },
  });
}

/** Starts the answers. @throws HttpError */
export async function answerTexts(
  resident: Resident,
  body: CompletionRequest,
  { signal, finished, span }: CompletionContext,
): Promise<AnswerStream> {
  const ready = await resident.acquire(body.model, { signal, finished, span }, 'generate');
  const { tokenizer, model } = ready.engine;
  const violations = findCompletionViolations(body);
  if (violations.length > 0) throw invalidBodyError(violations);
  const jobs = await toJobs(ready.engine, body);
  const generatedCount = generatedPerPrompt(body);
  const returnedPerPrompt = body.n ?? 1;
  const requests = jobs.map(({ request }) => request);
  recordTexts(
    span,
    tokenizer,
    requests.map(({ prompt }) => prompt),
  );
  const choices = await startChoices(ready, requests, signal).catch((error: unknown) => {
    throw withGrammarMember(error, () => toOutputConstraint(body)?.member ?? 'prompt');
  });
  const logprobs = typeof body.logprobs === 'number';
  const events = streamTextAnswers(choices, {
    jobs,
    generatedPerPrompt: generatedCount,
    returnedPerPrompt,
    tokenizer,
    logprobs,
    span,
  });
  const includeUsage = body.stream_options?.include_usage ?? false;
  return {
    events,
    seed: jobs[0]?.request.sampling.seed ?? 0,
    metadata: createAnswerMetadata(model, {
      body,
      facts: { includeUsage, answers: jobs.length * returnedPerPrompt },
    }),
  };
}
