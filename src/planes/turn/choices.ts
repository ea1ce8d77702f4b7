import type { Engine, GenerateRequest, GenerationEvent } from '../../engine/index.ts';
import type { Grammar, GrammarService, GrammarSource } from '../../grammar/types.ts';
import { currentAdmission } from '../../http/admission.ts';
import { HttpError } from '../../http/error.ts';
import { toHttpError } from '../resident.ts';
import { generate } from './generation.ts';
import { runConcurrently } from './run-concurrently.ts';
import type { Timings } from '../../wires/core/answer.ts';
import { AnswerStopwatch } from './timings.ts';

/** Answers of one request that run at a time, where the engine has that many slots. */
const maxAtOnce = 8;

/** A prompt to continue, with its options. */
export interface TextRequest extends Omit<GenerateRequest, 'constraint' | 'signal' | 'client' | 'priority'> {
  /** Number of answers to the prompt; each is sampled with its own seed. Default 1. */
  readonly n?: number;
  readonly grammar?: GrammarSource | undefined;
}

/** Resources for text requests: the resident engine and its grammar compiler. */
export interface GenerationResources {
  readonly engine: Engine;
  readonly grammars: GrammarService | undefined;
}

/** `choice` numbers the answers of the first request first, then those of the second. */
export type ChoiceEvent = GenerationEvent & { readonly choice: number } & Measured;

export interface Measured {
  /** Prompt tokens and timings of the answer so far, where the request asked for progress. */
  readonly measured?: { readonly promptTokens: number; readonly timings: Timings };
}

/**
 * Runs the answers of a request concurrently. Events are yielded as they occur, each with the index of its answer.
 * Refusals become `HttpError`s. Leaving the loop stops all answers.
 */
export async function* generateChoices(
  answering: GenerationResources,
  request: TextRequest,
  signal: AbortSignal,
): AsyncGenerator<ChoiceEvent, void, undefined> {
  yield* await startChoices(answering, [request], signal);
}

/**
 * Like `generateChoices`, for several requests; a grammar that cannot be compiled is refused before the first event.
 */
export async function startChoices(
  answering: GenerationResources,
  requests: readonly TextRequest[],
  signal: AbortSignal,
): Promise<AsyncGenerator<ChoiceEvent, void, undefined>> {
  const grammars = new Map<GrammarSource, Grammar>();
  for (const { grammar, visible } of requests) {
    if (grammar === undefined || grammars.has(grammar)) continue;
    grammars.set(grammar, await compileGrammar(answering, grammar, visible, signal));
  }
  const { client, priority } = currentAdmission() ?? {};
  const admission = { ...(client === undefined ? {} : { client }), ...(priority ? { priority } : {}) };
  const generations = requests.flatMap(({ n = 1, grammar: source, ...request }) => {
    const grammar = source && grammars.get(source);
    return Array.from({ length: n }, (_, index) => () => {
      const sampling = { ...request.sampling, seed: (request.sampling.seed + index) >>> 0 };
      const constraint = grammar ? { constraint: grammar.start() } : {};
      const events = generate(
        answering.engine,
        { ...request, ...admission, sampling, ...constraint },
        signal,
      );
      return request.progress ? measured(events, request.prompt.length) : events;
    });
  });
  return runConcurrently(generations, maxConcurrentAnswers(answering.engine), signal);
}

async function* measured(
  events: AsyncIterable<GenerationEvent>,
  promptTokens: number,
): AsyncGenerator<GenerationEvent & Measured, void, undefined> {
  const stopwatch = new AnswerStopwatch(promptTokens);
  for await (const event of events) {
    if (event.type === 'prompt') stopwatch.setProgress(event);
    else if (event.type === 'text') stopwatch.addTokens(event.ids.length);
    // Computed now, because later it could include further events.
    yield { ...event, measured: { promptTokens, timings: stopwatch.timings() } };
  }
}

/** At most the engine's slots: further answers would only fill the queue. */
export const maxConcurrentAnswers = (engine: Engine): number =>
  Math.max(1, Math.min(maxAtOnce, engine.stats().slots));

async function compileGrammar(
  { grammars }: GenerationResources,
  source: GrammarSource,
  visible: ReadonlySet<number> | undefined,
  signal: AbortSignal,
): Promise<Grammar> {
  if (!grammars) throw new HttpError(501, 'not_supported', 'This host serves its model without grammars.');
  try {
    return await grammars.compile(source, { ...(visible ? { visible } : {}), signal });
  } catch (error) {
    throw toHttpError(error);
  }
}
