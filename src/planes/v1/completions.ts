import { invalidBody } from '../../http/violations.ts';
import { openaiRefusal, openaiRefusals } from '../error-schema.ts';
import type { Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import { startChoices } from '../turn/choices.ts';
import { completionsWire } from '../../wires/completions/client.ts';
import { aboutOf, type Answered, respond, type Visit } from '../turn/respond.ts';
import { sayTexts } from '../turn/said.ts';
import { textAnswers } from '../turn/text-answers.ts';
import { answersMade, completionViolations, toJobs } from './completions-input.ts';
import {
  completion,
  completionChunk,
  type CompletionRequest,
  completionRequest,
} from '../../wires/completions/server-schema.ts';
import { namingGrammar } from './grammar-refusal.ts';
import { toOutput } from './output.ts';

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
    answers: {
      200: {
        description: 'The answer; with `stream`, chunks as events and then `[DONE]`.',
        content: { 'application/json': completion, 'text/event-stream': completionChunk },
      },
      ...openaiRefusals,
      501: openaiRefusal('The request has a `suffix`, but the model does not support fill-in-the-middle.'),
    },
    async handle({ body, asHttpError, ...visit }) {
      const answered = await answerTexts(resident, body, visit);
      return await respond(completionsWire, answered, { stream: body.stream, asHttpError });
    },
  });
}

/** Starts the answers. @throws HttpError */
export async function answerTexts(
  resident: Resident,
  body: CompletionRequest,
  { signal, over, work }: Visit,
): Promise<Answered> {
  const ready = await resident.use(body.model, { signal, over, work }, 'generate');
  const { tokenizer, model } = ready.engine;
  const wrong = completionViolations(body);
  if (wrong.length > 0) throw invalidBody(wrong);
  const jobs = await toJobs(ready.engine, body);
  const made = answersMade(body);
  const given = body.n ?? 1;
  const requests = jobs.map(({ request }) => request);
  sayTexts(
    work,
    tokenizer,
    requests.map(({ prompt }) => prompt),
  );
  const choices = await startChoices(ready, requests, signal).catch((error: unknown) => {
    throw namingGrammar(error, () => toOutput(body)?.member ?? 'prompt');
  });
  const logprobs = typeof body.logprobs === 'number';
  const events = textAnswers(choices, { jobs, made, given, tokenizer, logprobs, work });
  const includeUsage = body.stream_options?.include_usage ?? false;
  return { events, about: aboutOf(model, { body, facts: { includeUsage, answers: jobs.length * given } }) };
}
