import type { Engine, GenerateRequest, GenerationEvent } from '../../engine/index.ts';
import type { Grammar, Grammars, GrammarSource } from '../../grammar/types.ts';
import { Problem } from '../problem.ts';
import { toProblem } from '../resident.ts';
import { generate } from './generation.ts';

/** Answers of one request that run at a time; the others wait for their turn. */
const mostAtOnce = 8;

/** A text to go on with, and how. */
export interface TextRequest extends Omit<GenerateRequest, 'constraint' | 'signal'> {
  /** Answers to the same prompt; the k-th draws with a seed of its own. Default 1. */
  readonly n?: number;
  readonly grammar?: GrammarSource | undefined;
}

/** What runs text requests: the resident model and what compiles its grammars. */
export interface Answering {
  readonly engine: Engine;
  readonly grammars: Grammars | undefined;
}

export type ChoiceEvent = GenerationEvent & { readonly choice: number };

/**
 * Runs a request's answers side by side; their events come as they are made, each with the index of its answer.
 * Refusals become `Problem`s. Leaving the loop stops all of them.
 */
export async function* generateChoices(
  answering: Answering,
  { n = 1, grammar: source, ...request }: TextRequest,
  signal: AbortSignal,
): AsyncGenerator<ChoiceEvent, void, undefined> {
  const grammar = source && (await compile(answering, source, request.visible, signal));
  const start = (choice: number): Running => {
    const sampling = { ...request.sampling, seed: (request.sampling.seed + choice) >>> 0 };
    const constraint = grammar ? { constraint: grammar.start() } : {};
    const events = generate(answering.engine, { ...request, sampling, ...constraint }, signal);
    return { choice, events, next: next(choice, events) };
  };
  const running: Running[] = [];
  let started = 0;
  try {
    for (;;) {
      while (started < n && running.length < mostAtOnce) running.push(start(started++));
      if (running.length === 0) return;
      const { choice, result } = await Promise.race(running.map((one) => one.next));
      const at = running.findIndex((one) => one.choice === choice);
      const one = running[at] as Running;
      if (result.done) {
        running.splice(at, 1);
      } else {
        one.next = next(choice, one.events);
        // Who was served goes to the end: all get their turn.
        running.push(...running.splice(at, 1));
        yield { ...result.value, choice };
      }
    }
  } finally {
    for (const { events, next: pending } of running) {
      pending.catch(() => undefined);
      void events.return().catch(() => undefined);
    }
  }
}

interface Running {
  readonly choice: number;
  readonly events: AsyncGenerator<GenerationEvent, void, undefined>;
  next: Promise<{ choice: number; result: IteratorResult<GenerationEvent, void> }>;
}

const next = async (choice: number, events: Running['events']) => ({ choice, result: await events.next() });

async function compile(
  { grammars }: Answering,
  source: GrammarSource,
  visible: ReadonlySet<number> | undefined,
  signal: AbortSignal,
): Promise<Grammar> {
  if (!grammars) throw new Problem(501, 'not_supported', 'This host serves its model without grammars.');
  try {
    return await grammars.compile(source, { ...(visible ? { visible } : {}), signal });
  } catch (error) {
    throw toProblem(error);
  }
}
