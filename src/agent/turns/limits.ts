import type { Clock } from '../clock.ts';
import type { AgentLimits } from '../shapes/agent-spec.ts';
import { Abortion } from './abortion.ts';

/** Of an agent and a request that say nothing. */
const usual = { max_turns: 16, timeout_secs: 600 } as const;
/** Tokens of one answer, however many the budget has. */
const mostOfAnswer = 16_384;

export interface Limits {
  readonly turns: number;
  /** Undefined: no bound for all answers together. */
  readonly tokens: number | undefined;
  readonly seconds: number;
}

/** A request's limits count before the agent's, member by member. */
export const limitsOf = (agent: AgentLimits = {}, request: AgentLimits = {}): Limits => ({
  turns: request.max_turns ?? agent.max_turns ?? usual.max_turns,
  tokens: request.max_tokens ?? agent.max_tokens,
  seconds: request.timeout_secs ?? agent.timeout_secs ?? usual.timeout_secs,
});

interface Used {
  readonly promptTokens: number;
  readonly completionTokens: number;
}

/** What a task or step has used of its turns and tokens. */
export class Spending {
  readonly #limits: Limits;
  #turns = 0;
  #prompt = 0;
  #completion = 0;
  /** With what was guessed where a model did not say. */
  #counted = 0;
  /** Turns whose model said what it used. */
  #disclosed = 0;

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  /** The number of the turn that begins. Throws where none is left. */
  begin(): number {
    const { turns, tokens } = this.#limits;
    if (this.#turns >= turns)
      throw new Abortion('budget', `There was no answer after ${amount(turns, 'turn')} (limits.max_turns).`);
    if (tokens !== undefined && this.#counted >= tokens) throw this.overTokens();
    this.#turns += 1;
    return this.#turns;
  }

  /** Tokens that the next answer may have. */
  get answerTokens(): number {
    const { tokens } = this.#limits;
    return tokens === undefined ? mostOfAnswer : Math.min(mostOfAnswer, tokens - this.#counted);
  }

  /** @param written characters of the answer, to guess by where the model did not say */
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
    return new Abortion('budget', `There was no whole answer within ${tokens} (limits.max_tokens).`);
  }

  told(): { turns: number; usage?: { prompt_tokens: number; completion_tokens: number } } {
    // Of a turn that was cut off nothing is known, and so of the whole.
    const known = this.#turns > 0 && this.#disclosed === this.#turns;
    return {
      turns: this.#turns,
      ...(known ? { usage: { prompt_tokens: this.#prompt, completion_tokens: this.#completion } } : {}),
    };
  }
}

/** Wall time, without the time that a person takes to decide; jumps of the wall clock do not count. */
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
    this.#message = `The time was up after ${amount(seconds, 'second')} (limits.timeout_secs).`;
    this.#arm();
  }

  /** Aborted when the time is up, with an `Abortion` as its reason. */
  get signal(): AbortSignal {
    return this.#cut.signal;
  }

  /** The time stands still while the promise is waited for. */
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
