import type { BenchRequest } from '../types.ts';
import type { BenchPort } from './port.ts';
import { minRounds } from './verdict.ts';

/** Amount of measurement of a bench. */
export interface BenchEffort {
  /** Length of each prompt. */
  readonly promptTokens: number;
  /** Context lengths at which decode is measured, ascending. */
  readonly contexts: readonly number[];
  /** Tokens of one decode sample: enough to take `sampleMs`, within these bounds. */
  readonly newTokens: { readonly least: number; readonly most: number };
  readonly sampleMs: number;
  /** Whether the request has the number of rounds; then precision does not end them. */
  readonly areRoundsFixed: boolean;
  /** Sizes of the request, which are kept however long they take. */
  readonly isFixed: { readonly promptTokens: boolean; readonly newTokens: boolean };
  readonly rounds: { readonly least: number; readonly most: number };
  /** Smallest difference that is asked about, relative. */
  readonly effect: number;
  /** Time for all rounds. After it, rounds begin only to reach the minimum number, or until the effect could be found. */
  readonly budgetMs: number;
  /** Time after which no round begins, except to reach the minimum number. */
  readonly maxBudgetMs: number;
  /** Target half-width of both intervals, relative. No round begins after it is reached. */
  readonly precision: number;
  /** Maximum number of rounds before the measurement. */
  readonly warmUpRounds: number;
  /** Steps to trace in each arm. */
  readonly traces: number;
  /** Number of positions at which the outputs of the arms are compared. */
  readonly comparedPositions: number;
}

type Mode = NonNullable<BenchRequest['mode']>;

const modes: Readonly<Record<Mode, Omit<BenchEffort, 'isFixed' | 'areRoundsFixed'>>> = {
  quick: {
    promptTokens: 64,
    contexts: [32, 128, 512],
    newTokens: { least: 4, most: 32 },
    sampleMs: 20,
    rounds: { least: 8, most: 80 },
    effect: 0.1,
    budgetMs: 4000,
    maxBudgetMs: 20_000,
    precision: 0.01,
    warmUpRounds: 4,
    traces: 5,
    comparedPositions: 24,
  },
  full: {
    promptTokens: 128,
    contexts: [32, 128, 512],
    newTokens: { least: 8, most: 128 },
    sampleMs: 60,
    rounds: { least: 16, most: 250 },
    effect: 0.03,
    budgetMs: 45_000,
    maxBudgetMs: 120_000,
    precision: 0.004,
    warmUpRounds: 8,
    traces: 15,
    comparedPositions: 48,
  },
};

/** Derives the effort from a request and its mode (default `quick`), limited to the context of the model. */
export function planEffort(
  request: BenchRequest,
  { maxContext }: Pick<BenchPort, 'maxContext'>,
): { readonly effort: BenchEffort; readonly warnings: readonly string[] } {
  const base = modes[request.mode ?? 'quick'];
  const warnings: string[] = [];
  const clampToContext = (name: string, requested: number, most: number): number => {
    if (requested > most)
      warnings.push(`${name} ${requested} exceeds the context of ${maxContext} tokens; ${most} is used`);
    return Math.min(requested, most);
  };
  const half = Math.max(1, maxContext >> 1);
  const newTokens =
    request.new_tokens === undefined
      ? { least: Math.min(base.newTokens.least, half), most: Math.min(base.newTokens.most, half) }
      : exactly(clampToContext('new_tokens', request.new_tokens, Math.max(1, maxContext - 1)));
  const lastContext = Math.max(0, maxContext - newTokens.most);
  const contexts =
    request.contexts?.map((one) => clampToContext('context', one, lastContext)) ??
    base.contexts.map((one) => Math.min(one, lastContext));
  return {
    effort: {
      ...base,
      promptTokens:
        request.prompt_tokens === undefined
          ? Math.min(base.promptTokens, maxContext)
          : clampToContext('prompt_tokens', request.prompt_tokens, maxContext),
      contexts: [...new Set(contexts)].sort((a, b) => a - b),
      newTokens,
      isFixed: {
        promptTokens: request.prompt_tokens !== undefined,
        newTokens: request.new_tokens !== undefined,
      },
      areRoundsFixed: request.rounds !== undefined,
      ...(request.rounds === undefined
        ? {}
        : {
            rounds: { least: Math.min(minRounds, request.rounds), most: request.rounds },
            maxBudgetMs: maxFixedMs,
          }),
      ...(request.effect === undefined ? {} : { effect: request.effect }),
      comparedPositions: Math.min(base.comparedPositions, half),
    },
    warnings,
  };
}

/** Time for a requested number of rounds. */
const maxFixedMs = 600_000;

/** Largest number of tokens that the rounds of a bench may time. */
export const maxTimedTokens = 500_000;

/** Number of tokens that the requested rounds time, or at least time where the request leaves it open. */
export function timedTokens(request: BenchRequest, maxContext: number): number {
  const { effort } = planEffort(request, { maxContext });
  const rounds = effort.areRoundsFixed ? effort.rounds.most : effort.rounds.least;
  return 3 * rounds * (effort.promptTokens + effort.contexts.length * effort.newTokens.least);
}

const exactly = (count: number) => ({ least: count, most: count });
