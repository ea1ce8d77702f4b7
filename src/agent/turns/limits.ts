import type { Clock } from '../clock.ts';
import type { AgentLimits } from '../shapes/agent-spec.ts';
import { Abortion } from './abortion.ts';

/** Limits when neither the agent nor the request sets them. */
const usual = { max_turns: 16, timeout_secs: 600 } as const;
/** Maximum tokens of one answer. */
const mostOfAnswer = 16_384;

export interface Limits {
  readonly turns: number;
  /** Completion tokens of all answers together; undefined: unlimited. */
  readonly tokens: number | undefined;
  readonly seconds: number;
}

/** The request's limits override the agent's, member by member. */
export const limitsOf = (agent: AgentLimits = {}, request: AgentLimits = {}): Limits => ({
  turns: request.max_turns ?? agent.max_turns ?? usual.max_turns,
  tokens: request.max_tokens ?? agent.max_tokens,
  seconds: request.timeout_secs ?? agent.timeout_secs ?? usual.timeout_secs,
});

interface Used {
  readonly promptTokens: number;
  readonly completionTokens: number;
}

/** Counts the turns and tokens of a task or step against its limits. */
export class Spending {
  readonly #limits: Limits;
  #turns = 0;
  #prompt = 0;
  #completion = 0;
  /** Completion tokens, estimated for turns without reported usage. */
  #counted = 0;
  /** Turns with reported usage. */
  #disclosed = 0;

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  /** Starts a turn. @returns its number, from 1. Throws when no turn or token is left. */
  begin(): number {
    const { turns, tokens } = this.#limits;
    if (this.#turns >= turns)
      throw new Abortion('budget', `There was no answer after ${amount(turns, 'turn')} (limits.max_turns).`);
    if (tokens !== undefined && this.#counted >= tokens) throw this.overTokens();
    this.#turns += 1;
    return this.#turns;
  }

  /** Maximum tokens of the next answer. */
  get answerTokens(): number {
    const { tokens } = this.#limits;
    return tokens === undefined ? mostOfAnswer : Math.min(mostOfAnswer, tokens - this.#counted);
  }

  /** @param written characters of the answer, for an estimate when the model reports no usage */
  add(used: Used | undefined, written: number): void {
    this.#counted += used?.completionTokens ?? Math.ceil(written / 4);
    if (used) {
      this.#prompt += used.promptTokens;
      this.#completion += used.completionTokens;
      this.#disclosed += 1;
    }
  }

  get left(): number {
    return (this.#limits.tokens ?? Number.POSITIVE_INFINITY) - this.#counted;
  }

  overTokens(): Abortion {
    const tokens = amount(this.#limits.tokens ?? 0, 'token');
    return new Abortion('budget', `There was no complete answer within ${tokens} (limits.max_tokens).`);
  }

  told(): { turns: number; usage?: { prompt_tokens: number; completion_tokens: number } } {
    // The total is known only when every turn reported its usage.
    const known = this.#turns > 0 && this.#disclosed === this.#turns;
    return {
      turns: this.#turns,
      ...(known ? { usage: { prompt_tokens: this.#prompt, completion_tokens: this.#completion } } : {}),
    };
  }
}

/** Deadline of a task or step, by the monotonic clock. It is paused while a person decides. */
export class Deadline {
  readonly #clock: Clock;
  readonly #cut = new AbortController();
  readonly #message: string;
  #leftMs: number;
  #since: number;
  #timer: NodeJS.Timeout | undefined;

  constructor(seconds: number, clock: Clock) {
    this.#clock = clock;
    this.#leftMs = seconds * 1000;
    this.#since = clock.monotonic();
    this.#message = `The time limit of ${amount(seconds, 'second')} was reached (limits.timeout_secs).`;
    this.#arm();
  }

  /** Aborted when the time is up, with an `AgentAbortError` as its reason. */
  get signal(): AbortSignal {
    return this.#cut.signal;
  }

  /** Pauses the deadline until the promise settles. */
  async without<T>(wait: () => Promise<T>): Promise<T> {
    this.stop();
    this.#leftMs -= this.#clock.monotonic() - this.#since;
    try {
      return await wait();
    } finally {
      this.#since = this.#clock.monotonic();
      this.#arm();
    }
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  #arm(): void {
    const left = this.#leftMs - (this.#clock.monotonic() - this.#since);
    if (left <= 0) this.#cut.abort(new Abortion('timeout', this.#message));
    else this.#timer = setTimeout(() => this.#arm(), Math.min(Math.ceil(left), 2 ** 31 - 1));
  }
}

const amount = (count: number, what: string) => `${count} ${what}${count === 1 ? '' : 's'}`;
