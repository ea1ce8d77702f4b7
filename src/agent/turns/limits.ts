import type { Clock } from '../clock.ts';
import type { InterruptedWork, TurnTotals } from '../services.ts';
import type { AgentLimits } from '../shapes/agent-spec.ts';
import { AgentAbortError } from './agent-abort-error.ts';

/** Limits when neither the agent nor the request sets them. */
const defaultLimits = { max_turns: 16, timeout_secs: 600, max_repeated_failures: 4 } as const;
/** Maximum tokens of one answer. */
const maxTokensPerAnswer = 16_384;

export interface TurnLimits {
  readonly maxTurns: number;
  /** Completion tokens of all answers together; undefined: unlimited. */
  readonly maxTokens: number | undefined;
  readonly timeoutSecs: number;
  /** Failures of the same call, without a change in between, that end the work. */
  readonly maxRepeatedFailures: number;
}

/** The request's limits override the agent's, member by member. */
export const resolveLimits = (agent: AgentLimits = {}, request: AgentLimits = {}): TurnLimits => ({
  maxTurns: request.max_turns ?? agent.max_turns ?? defaultLimits.max_turns,
  maxTokens: request.max_tokens ?? agent.max_tokens,
  timeoutSecs: request.timeout_secs ?? agent.timeout_secs ?? defaultLimits.timeout_secs,
  maxRepeatedFailures:
    request.max_repeated_failures ?? agent.max_repeated_failures ?? defaultLimits.max_repeated_failures,
});

interface TokenUsage {
  readonly promptTokens: number;
  readonly completionTokens: number;
}

/** Counts the turns and tokens of a task or step against its limits. */
export class TurnBudget {
  readonly #limits: TurnLimits;
  #turns = 0;
  #prompt = 0;
  #completion = 0;
  /** Completion tokens, estimated for turns without reported usage. */
  #countedTokens = 0;
  /** Turns with reported usage. */
  #turnsWithUsage = 0;

  /** @param interrupted what was used before an interruption */
  constructor(limits: TurnLimits, interrupted?: Pick<InterruptedWork, 'totals' | 'completionTokens'>) {
    this.#limits = limits;
    if (!interrupted) return;
    const { turns, usage } = interrupted.totals;
    this.#turns = turns;
    this.#turnsWithUsage = usage ? turns : 0;
    this.#prompt = usage?.prompt_tokens ?? 0;
    this.#completion = usage?.completion_tokens ?? 0;
    this.#countedTokens = interrupted.completionTokens;
  }

  /** Starts a turn. @returns its number, from 1. Throws when no turn or token is left. */
  startTurn(): number {
    const { maxTurns: turns, maxTokens: tokens } = this.#limits;
    if (this.#turns >= turns)
      throw new AgentAbortError(
        'budget',
        `There was no answer after ${formatCount(turns, 'turn')} (limits.max_turns).`,
      );
    if (tokens !== undefined && this.#countedTokens >= tokens) throw this.tokenBudgetError();
    this.#turns += 1;
    return this.#turns;
  }

  /** Maximum tokens of the next answer. */
  get maxAnswerTokens(): number {
    const { maxTokens: tokens } = this.#limits;
    return tokens === undefined
      ? maxTokensPerAnswer
      : Math.min(maxTokensPerAnswer, tokens - this.#countedTokens);
  }

  /** @param written characters of the answer, for an estimate when the model reports no usage */
  add(usage: TokenUsage | undefined, written: number): void {
    this.#countedTokens += usage?.completionTokens ?? Math.ceil(written / 4);
    if (usage) {
      this.#prompt += usage.promptTokens;
      this.#completion += usage.completionTokens;
      this.#turnsWithUsage += 1;
    }
  }

  /** Counts tokens of a task that work was handed on to; they are in its own totals. */
  spend(tokens: number): void {
    this.#countedTokens += tokens;
  }

  /** Counts tokens that are not those of a turn. */
  addTokens(usage: TokenUsage | undefined, written: number): void {
    this.#countedTokens += usage?.completionTokens ?? Math.ceil(written / 4);
    this.#prompt += usage?.promptTokens ?? 0;
    this.#completion += usage?.completionTokens ?? 0;
  }

  get tokensLeft(): number {
    return (this.#limits.maxTokens ?? Number.POSITIVE_INFINITY) - this.#countedTokens;
  }

  tokenBudgetError(): AgentAbortError {
    const tokens = formatCount(this.#limits.maxTokens ?? 0, 'token');
    return new AgentAbortError(
      'budget',
      `There was no complete answer within ${tokens} (limits.max_tokens).`,
    );
  }

  totals(): TurnTotals {
    // The total is known only when every turn reported its usage.
    const isComplete = this.#turns > 0 && this.#turnsWithUsage === this.#turns;
    return {
      turns: this.#turns,
      ...(isComplete ? { usage: { prompt_tokens: this.#prompt, completion_tokens: this.#completion } } : {}),
    };
  }
}

/** Deadline of a task or step, by the monotonic clock. It is paused while a person decides. */
export class Deadline {
  readonly #clock: Clock;
  readonly #abortController = new AbortController();
  readonly #message: string;
  #remainingMs: number;
  #resumedAtMs: number;
  #timer: NodeJS.Timeout | undefined;
  #pauses = 0;

  constructor(seconds: number, clock: Clock) {
    this.#clock = clock;
    this.#remainingMs = seconds * 1000;
    this.#resumedAtMs = clock.monotonic();
    this.#message = `The time limit of ${formatCount(seconds, 'second')} was reached (limits.timeout_secs).`;
    this.#arm();
  }

  /** Aborted when the time is up, with an `AgentAbortError` as its reason. */
  get signal(): AbortSignal {
    return this.#abortController.signal;
  }

  /** Pauses the deadline until the promise settles. Several may pause it at the same time. */
  async pauseWhile<T>(waitFor: () => Promise<T>): Promise<T> {
    if (this.#pauses === 0) {
      this.stop();
      this.#remainingMs -= this.#clock.monotonic() - this.#resumedAtMs;
    }
    this.#pauses += 1;
    try {
      return await waitFor();
    } finally {
      this.#pauses -= 1;
      if (this.#pauses === 0) {
        this.#resumedAtMs = this.#clock.monotonic();
        this.#arm();
      }
    }
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  #arm(): void {
    const left = this.#remainingMs - (this.#clock.monotonic() - this.#resumedAtMs);
    if (left <= 0) this.#abortController.abort(new AgentAbortError('timeout', this.#message));
    else this.#timer = setTimeout(() => this.#arm(), Math.min(Math.ceil(left), 2 ** 31 - 1));
  }
}

const formatCount = (count: number, what: string) => `${count} ${what}${count === 1 ? '' : 's'}`;
