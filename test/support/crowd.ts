/**
 * Random concurrent requests on the real adapter: slow or leaving readers, constraints, and few slots, pages and
 * retained states.
 */
import type { ResidentEngine } from '../../src/engine/index.ts';
import type { Capacity } from '../../src/engine/memory/memory.ts';
import type { ReaderLimits } from '../../src/engine/scheduling/reader-backpressure.ts';
import { Scheduler } from '../../src/engine/scheduling/scheduler.ts';
import { zeroCounts } from '../../src/engine/scheduling/scheduler-counts.ts';
import { Sequence } from '../../src/engine/scheduling/sequence.ts';
import type { ConstraintLimits } from '../../src/engine/scheduling/mask-wait-list.ts';
import {
  type GenerateRequest,
  type GenerationEvent,
  greedySampling,
  type Sampling,
  type TokenLogprob,
} from '../../src/engine/types.ts';
import { random } from './kernel-harness.ts';
import { type ToyGrammar, toyGrammar, ToyConstraint } from './toy-constraint.ts';

export interface Answer {
  readonly ids: number[];
  readonly logprobs: TokenLogprob[];
  readonly prompt: readonly (TokenLogprob | null)[];
  readonly cached: number;
}

type Scores = readonly (TokenLogprob | null)[];

/** The largest difference of two texts' log probabilities. */
export const farthest = (got: Scores, wanted: Scores): number =>
  got.length === wanted.length
    ? wanted.reduce((far, one, n) => Math.max(far, Math.abs((got[n]?.logprob ?? 0) - (one?.logprob ?? 0))), 0)
    : Number.POSITIVE_INFINITY;

type Events = AsyncIterable<GenerationEvent>;

/** The whole output. */
export async function read(events: Events, onEvent: (ids: number) => Promise<void> | void = () => {}) {
  const got = {
    ids: [] as number[],
    logprobs: [] as TokenLogprob[],
    prompt: [] as Answer['prompt'],
    cached: -1,
  };
  for await (const event of events) {
    if (event.type === 'end') {
      got.cached = event.usage.cached_tokens;
      continue;
    }
    if (event.type === 'prompt') continue;
    got.ids.push(...event.ids);
    got.logprobs.push(...(event.logprobs ?? []));
    if (event.prompt) got.prompt = event.prompt;
    await onEvent(got.ids.length);
  }
  return got satisfies Answer;
}

/** A scheduler with reduced capacity on an engine's runner, in place of the engine's own, which must be idle. */
export function narrowed(
  engine: ResidentEngine,
  less: Partial<Pick<Capacity, 'slots' | 'pages' | 'retainedStates' | 'stepTokens'>>,
  limits: { reader?: Partial<ReaderLimits>; constraint?: Partial<ConstraintLimits> } = {},
) {
  const { runner, tokenizer } = engine;
  let steps = 0;
  const texts: Sequence[] = [];
  const all = runner.memory.capacity;
  for (const [name, value] of Object.entries(less))
    if (value > (all[name as keyof Capacity] ?? 0)) throw new Error(`there are no ${value} ${name}`);
  const capacity = { ...all, ...less };
  const counts = zeroCounts();
  const failures: string[] = [];
  const narrow = {
    memory: { capacity },
    graph: runner.graph,
    needsTokenIds: runner.needsTokenIds,
    newStep: () => runner.newStep(),
    submit(step: Parameters<typeof runner.submit>[0]) {
      steps += 1;
      return runner.submit(step);
    },
    forward(step: Parameters<typeof runner.forward>[0]) {
      steps += 1;
      return runner.forward(step);
    },
    sample: runner.sample.bind(runner),
    setPages: runner.setPages.bind(runner),
    setBias: runner.setBias.bind(runner),
    setTokenCounts: runner.setTokenCounts.bind(runner),
    setMask: runner.setMask.bind(runner),
  };
  const now = () => performance.now();
  const options = {
    speculation: 'off',
    counts,
    ...limits,
    onFailure: (why: string) => failures.push(why),
  } as const;
  const scheduler = new Scheduler(narrow, now, options);
  const turn = () => new Promise((resolve) => setImmediate(resolve));
  const isIdle = () => scheduler.running + scheduler.waiting === 0;
  return {
    counts,
    failures,
    scheduler,
    /** Number of preemptions, for any reason. */
    get preemptions() {
      return texts.reduce((sum, { preemptionEpoch: preemptions }) => sum + preemptions, 0);
    },
    /** Waits for this many steps, or until there is nothing to do. */
    async after(more: number) {
      const end = steps + more;
      while (steps < end && !isIdle()) await turn();
    },
    generate(request: GenerateRequest): { events: Events; cancel: () => void } {
      const sequence = new Sequence(request, tokenizer, now());
      scheduler.add(sequence);
      texts.push(sequence);
      return { events: sequence.events(), cancel: () => scheduler.cancel(sequence, new Error('cut')) };
    },
  };
}

/** One request of the crowd. */
interface Guest {
  readonly request: GenerateRequest;
  readonly grammar: ToyGrammar | undefined;
  /** Event-loop turns that its constraint takes for a token. */
  readonly thinks: number;
  /** Steps after the previous request. */
  readonly comes: number;
  /** Canceled after this many steps. */
  readonly leaves: number | undefined;
  /** Steps that its reader takes for an event. */
  readonly reads: number;
}

/** Requests whose prompts share prefixes with each other, or with whole texts of others. */
export function guests(count: number, seed: number): Guest[] {
  const next = random(seed);
  const below = (limit: number) => Math.floor(next() * limit);
  const some = (length: number) => Array.from({ length }, () => below(256));
  const stems = Array.from({ length: 3 }, () => some(40 + below(60)));
  return Array.from({ length: count }, (_, n) => {
    const stem = stems[below(stems.length)] as number[];
    const prompt = [...(below(3) > 0 ? stem : stem.slice(0, 1 + below(stem.length))), ...some(1 + below(36))];
    // Some are the same text again.
    if (below(4) === 0) prompt.splice(stem.length + 1);
    const own: Partial<Sampling> = below(2) > 0 ? { temperature: 0.9, topP: 0.95, seed: n } : {};
    const isScored = below(6) === 0;
    const hasGrammar = below(5) === 0;
    const request: GenerateRequest = {
      prompt,
      maxTokens: (isScored ? 0 : 1) + below(below(2) > 0 ? 12 : 60),
      sampling: { ...greedySampling, ...own, frequencyPenalty: below(4) === 0 ? 0.3 : 0 },
      stop: [],
      ignoreEnd: true,
      logprobs: 1,
      promptLogprobs: isScored,
    };
    return {
      request,
      grammar: hasGrammar && !isScored ? toyGrammar(n) : undefined,
      thinks: below(2) === 0 ? 200 : below(3),
      comes: below(4),
      leaves: below(5) === 0 ? below(24) : undefined,
      reads: below(4) === 0 ? 3 + below(6) : 0,
    };
  });
}

export const withGrammar = ({ request, grammar, thinks }: Guest): GenerateRequest =>
  grammar ? { ...request, constraint: new ToyConstraint(grammar, thinks) } : request;

/**
 * Sends all requests on schedule.
 * @returns the outputs of those that were not canceled
 */
export async function crowd(
  list: readonly Guest[],
  by: ReturnType<typeof narrowed>,
): Promise<(Answer | undefined)[]> {
  const answers: Promise<Answer | undefined>[] = [];
  for (const guest of list) {
    await by.after(guest.comes);
    const { events, cancel } = by.generate(withGrammar(guest));
    if (guest.leaves !== undefined) void by.after(guest.leaves).then(cancel);
    const whole = read(events, () => by.after(guest.reads));
    answers.push(guest.leaves === undefined ? whole : whole.catch(() => undefined));
  }
  return await Promise.all(answers);
}
