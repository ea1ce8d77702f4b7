import { sleep } from '../../util/sleep.ts';
import { UpstreamFailure } from '../../wires/core/upstream-failure.ts';
import type { Candidate, Deployment } from '../catalog/types.ts';
import type { Limits } from '../config/types.ts';
import type { BreakerTicket } from './circuit-breaker.ts';
import type { DeploymentState } from './deployment-state.ts';
import { providerNameOf } from './destination.ts';
import { HostFailure, ProviderFailures } from './provider-failures.ts';
import {
  type Attempt,
  type HedgedAttempt,
  type HedgeOptions,
  type RunOptions,
  UntranslatableRequest,
} from './types.ts';

/** A provider that asks for a longer delay (`Retry-After`) is not retried, in ms. */
const maxRetryDelayMs = 10_000;
const firstRetryDelayMs = 250;

export interface AttemptSettings {
  readonly limits: Pick<Limits, 'retries'>;
  readonly stateOf: (candidate: Candidate) => DeploymentState;
  readonly isDisabled?: (provider: string, model: string) => boolean;
  /** Monotonic clock, in ms. */
  readonly now: () => number;
  /** Returns a number from 0 to below 1. */
  readonly random: () => number;
}

/** A deployment that this request uses. */
interface Member {
  readonly candidate: Candidate;
  readonly state: DeploymentState;
  readonly ticket: BreakerTicket;
  /** Frees its place at the deployment. */
  readonly release: () => void;
}

/** A deployment that failed. */
interface FailedMember extends Omit<Member, 'release'> {
  readonly failure: UpstreamFailure;
  /** When it may be retried; undefined: not for this request. */
  readonly retryAtMs: number | undefined;
}

/** The next attempt, after a delay if it is a retry. */
interface NextAttempt {
  readonly member: Member;
  /** Undefined for the first attempt of a deployment, which does not wait. */
  readonly retryDelayMs: number | undefined;
}

/** The deployments of a model, as far as they were tried. */
interface Group {
  readonly candidateIndex: number;
  readonly untried: Candidate[];
  readonly failed: FailedMember[];
  /** Number of deployments whose wire cannot express the request. */
  untranslatable: number;
  retries: number;
}

interface FailedAttempt {
  readonly member: Member;
  readonly attempt: Attempt;
  readonly error: unknown;
}

/** The result of an attempt. */
type Sent<T> =
  | { readonly member: Member; readonly attempt: Attempt; readonly value: T; readonly latencyMs: number }
  | FailedAttempt;

/** One of two attempts at the same time. */
interface RunningAttempt<T> {
  readonly member: Member;
  readonly sent: Promise<Sent<T>>;
  /** Resolves when the answer begins. */
  readonly firstByte: Promise<void>;
  readonly abort: () => void;
}

/** Whether an attempt has no answer yet after a time. */
async function isPending<T>({ sent, firstByte }: RunningAttempt<T>, delayMs: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const slow = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(true), delayMs);
  });
  const begun = () => false;
  const pending = await Promise.race([slow, sent.then(begun), firstByte.then(begun)]);
  clearTimeout(timer);
  return pending;
}

/** The attempts of one request. */
export class RequestAttempts<T> {
  readonly #settings: AttemptSettings;
  readonly #attempt: (attempt: Attempt) => Promise<T>;
  readonly #options: RunOptions;
  #attemptNumber = 0;
  #isHedged = false;
  /** The failure to report when nothing answers. */
  #failure: UpstreamFailure | undefined;
  #untranslatable: UntranslatableRequest | undefined;
  #soonestBreaker: { readonly retryInMs: number; readonly candidate: Candidate } | undefined;
  #atLimit: Candidate | undefined;
  #disabled: Candidate | undefined;

  constructor(settings: AttemptSettings, attempt: (attempt: Attempt) => Promise<T>, options: RunOptions) {
    this.#settings = settings;
    this.#attempt = attempt;
    this.#options = options;
  }

  /**
   * Tries the deployments of a model in order: the next one at once where one fails, and retries after the last one.
   * @returns undefined when none answered and another model may be tried
   * @throws the failure where no other model may answer in place of this one: a refused request, or a model that none of its
   * deployments can serve
   */
  async tryModel(
    candidates: readonly Candidate[],
    candidateIndex: number,
  ): Promise<{ readonly value: T } | undefined> {
    const group: Group = {
      candidateIndex,
      untried: [...candidates],
      failed: [],
      untranslatable: 0,
      retries: 0,
    };
    let next = this.#takeUntried(group);
    while (next) {
      const sent = await this.#send(next.member, group);
      if ('value' in sent) return sent;
      const { member, attempt } = sent;
      const failure = this.#failureOf(sent, group);
      next = this.#takeNext(group);
      if (next?.retryDelayMs !== undefined) group.retries += 1;
      if (failure) {
        if (next?.member.ticket !== member.ticket) reportOutcome(failure, member.ticket);
        this.#report(attempt, failure, next?.retryDelayMs);
      }
      await this.#wait(next);
    }
    const { failed, untranslatable } = group;
    const [firstFailed] = failed;
    if (!firstFailed) {
      // The caller gets the error of the model that it asked for. Fallbacks that cannot express the request are skipped.
      if (untranslatable === candidates.length && candidateIndex === 0) throw this.error();
      return undefined;
    }
    // A failure that a retry may resolve tells the caller more than a deployment that cannot be used.
    const { failure } = failed.findLast((one) => one.failure.isRetryable) ?? firstFailed;
    // A deployment that was only full, or had an open breaker, may serve the model later.
    if (!failure.isRetryable && failed.length + untranslatable === candidates.length) throw failure;
    this.#failure = failure;
    return undefined;
  }

  /** What the caller gets when nothing answered. */
  error(): unknown {
    if (this.#failure) return this.#failure;
    if (this.#atLimit)
      return new ProviderFailures(providerNameOf(this.#atLimit)).atLimit(this.#atLimit.model.id);
    if (this.#soonestBreaker) {
      const { candidate, retryInMs } = this.#soonestBreaker;
      return new ProviderFailures(providerNameOf(candidate)).breakerOpen(candidate.model.id, retryInMs);
    }
    if (this.#disabled)
      return new ProviderFailures(providerNameOf(this.#disabled)).disabled(this.#disabled.model.id);
    return this.#untranslatable?.cause ?? new Error('no candidates');
  }

  /** Sends an attempt, and where it is hedged and slow, another one at the next deployment. */
  async #send(member: Member, group: Group): Promise<Sent<T>> {
    const { hedge } = this.#options;
    const mayHedge = hedge && !this.#isHedged && group.candidateIndex === 0 && group.untried.length > 0;
    if (!mayHedge) return this.#accept(await this.#attemptAt(member, this.#newAttempt(member, group)));
    const first = this.#start(member, group);
    const isSlow = await isPending(first, hedge.delayMs);
    const second = isSlow ? this.#takeSecond(group) : undefined;
    if (!second) return this.#accept(await first.sent);
    this.#isHedged = true;
    return this.#accept(await this.#race([first, this.#start(second, group)], group, hedge));
  }

  /** A deployment to ask beside another one; those without room now may be asked later. */
  #takeSecond(group: Group): Member | undefined {
    if (this.#options.signal.aborted) return undefined;
    const untried = [...group.untried];
    const second = this.#takeUntried(group)?.member;
    if (!second) group.untried.push(...untried);
    return second;
  }

  /** The first answer. The other attempt is aborted; where one fails, the other goes on. */
  async #race(
    [first, second]: readonly [RunningAttempt<T>, RunningAttempt<T>],
    group: Group,
    { onHedge }: HedgeOptions,
  ): Promise<Sent<T>> {
    const outcomes = new Map<RunningAttempt<T>, HedgedAttempt['outcome']>();
    const outcomeOf = (one: RunningAttempt<T>): HedgedAttempt => ({
      candidate: one.member.candidate,
      outcome: outcomes.get(one) ?? 'aborted',
    });
    let running = await Promise.race([first.sent.then(() => first), second.sent.then(() => second)]);
    let sent = await running.sent;
    const other = running === first ? second : first;
    if (!('value' in sent) && this.#isDeploymentFault(sent.error)) {
      outcomes.set(running, 'failed');
      const failure = this.#failureOf(sent, group);
      if (failure) {
        reportOutcome(failure, sent.member.ticket);
        this.#report(sent.attempt, failure);
      }
      running = other;
      sent = await other.sent;
    } else {
      // The other attempt is closed, whatever it returns.
      other.abort();
      other.member.release();
      other.member.ticket.discard();
    }
    if ('value' in sent) outcomes.set(running, 'answered');
    else if (!this.#options.signal.aborted) outcomes.set(running, 'failed');
    onHedge([outcomeOf(first), outcomeOf(second)]);
    return sent;
  }

  #start(member: Member, group: Group): RunningAttempt<T> {
    const controller = new AbortController();
    const { promise: firstByte, resolve: onFirstByte } = Promise.withResolvers<void>();
    const attempt = { ...this.#newAttempt(member, group), signal: controller.signal, onFirstByte };
    return {
      member,
      firstByte,
      sent: this.#attemptAt(member, attempt),
      abort: () => controller.abort(new Error('another deployment answered first')),
    };
  }

  #newAttempt({ candidate }: Member, { candidateIndex }: Group): Attempt {
    return { candidate, attemptNumber: this.#attemptNumber++, candidateIndex };
  }

  async #attemptAt(member: Member, attempt: Attempt): Promise<Sent<T>> {
    const startedAtMs = this.#settings.now();
    try {
      const value = await this.#attempt(attempt);
      return { value, member, attempt, latencyMs: this.#settings.now() - startedAtMs };
    } catch (error) {
      return { error, member, attempt };
    }
  }

  /** Records an answer. Its place at the deployment is free when it has ended. */
  #accept(sent: Sent<T>): Sent<T> {
    if (!('value' in sent)) return sent;
    const { member, attempt, latencyMs } = sent;
    const { stream, finished } = this.#options;
    member.ticket.markSucceeded();
    member.state.markAnswered(stream, latencyMs);
    this.#report(attempt);
    void finished.then(member.release, member.release);
    return sent;
  }

  /** Whether another deployment may answer in place of one that failed so. */
  #isDeploymentFault(error: unknown): boolean {
    if (error instanceof UntranslatableRequest) return true;
    return !this.#options.signal.aborted && error instanceof UpstreamFailure && isDeploymentFailure(error);
  }

  /**
   * Records an attempt that failed.
   * @returns the failure of the deployment; undefined where its wire cannot express the request
   * @throws the error where no other deployment may answer
   */
  #failureOf({ member, attempt, error }: FailedAttempt, group: Group): UpstreamFailure | undefined {
    member.release();
    if (error instanceof UntranslatableRequest) {
      member.ticket.discard();
      this.#untranslatable ??= error;
      group.untranslatable += 1;
      return undefined;
    }
    if (this.#options.signal.aborted || !(error instanceof UpstreamFailure)) {
      member.ticket.discard();
      throw error;
    }
    if (!isDeploymentFailure(error)) {
      reportOutcome(error, member.ticket);
      this.#report(attempt, error);
      throw error;
    }
    member.state.markFailed(error);
    group.failed.push({
      ...member,
      failure: error,
      retryAtMs: this.#retryTime(member, error, group.retries),
    });
    return error;
  }

  /** Deployments that were not tried go first; but after a failed host of a pool, another host of it is asked. */
  #takeNext(group: Group): NextAttempt | undefined {
    const { failed, retries } = group;
    const last = failed.at(-1);
    if (last?.failure instanceof HostFailure) {
      const sameAgain = this.#takeFailed(failed, retries, last);
      if (sameAgain) return sameAgain;
    }
    return this.#takeUntried(group) ?? this.#takeFailed(failed, retries);
  }

  #takeUntried({ untried }: Group): NextAttempt | undefined {
    this.#options.signal.throwIfAborted();
    for (let candidate = untried.shift(); candidate; candidate = untried.shift()) {
      const member = this.#enter(candidate);
      if (member) return { member, retryDelayMs: undefined };
    }
    return undefined;
  }

  /** Takes a place at a deployment; undefined when it is disabled, its breaker is open or it has no room. */
  #enter(candidate: Candidate): Member | undefined {
    if (this.#isDisabled(candidate)) {
      this.#disabled ??= candidate;
      return undefined;
    }
    const state = this.#settings.stateOf(candidate);
    const limits = limitsOf(candidate);
    if (state.isBusy(limits)) {
      this.#atLimit ??= candidate;
      return undefined;
    }
    const ticket = state.breaker.acquire(this.#options.callerId);
    if ('retryInMs' in ticket) {
      const { retryInMs } = ticket;
      if (!this.#soonestBreaker || retryInMs < this.#soonestBreaker.retryInMs)
        this.#soonestBreaker = { retryInMs, candidate };
      return undefined;
    }
    const release = state.acquire(limits);
    if (release) return { candidate, state, ticket: reportOnce(ticket), release };
    ticket.discard();
    this.#atLimit ??= candidate;
    return undefined;
  }

  /** Takes the failed deployment that may be retried soonest out of the list. @param only one of them */
  #takeFailed(failed: FailedMember[], retries: number, only?: FailedMember): NextAttempt | undefined {
    if (retries >= this.#settings.limits.retries) return undefined;
    const waiting = (only ? [only] : failed)
      .flatMap((member) => (member.retryAtMs === undefined ? [] : [{ member, atMs: member.retryAtMs }]))
      .sort((a, b) => a.atMs - b.atMs);
    for (const { member, atMs } of waiting) {
      const { candidate, state, ticket } = member;
      const limits = limitsOf(candidate);
      // While the breaker is open, retries would only add load.
      if (state.breaker.isOpen || state.isBusy(limits) || this.#isDisabled(candidate)) continue;
      const release = state.acquire(limits);
      if (!release) continue;
      failed.splice(failed.indexOf(member), 1);
      return {
        member: { candidate, state, ticket, release },
        retryDelayMs: Math.max(0, atMs - this.#settings.now()),
      };
    }
    return undefined;
  }

  /** A caller's own endpoint has no switch. */
  #isDisabled({ model }: Candidate): boolean {
    return this.#settings.isDisabled?.(model.provider.id, model.id) ?? false;
  }

  async #wait(next: NextAttempt | undefined): Promise<void> {
    if (!next?.retryDelayMs) return;
    try {
      await sleep(next.retryDelayMs, this.#options.signal);
    } catch (abortReason) {
      next.member.release();
      next.member.ticket.discard();
      throw abortReason;
    }
  }

  /** Time of the next attempt: as the provider asks (`Retry-After`), or exponential backoff; undefined where it is too late. */
  #retryTime(
    { state }: Member,
    { isRetryable, retryAfterMs }: UpstreamFailure,
    retries: number,
  ): number | undefined {
    const { now, random } = this.#settings;
    if (!isRetryable || state.breaker.isOpen) return undefined;
    if (retryAfterMs === undefined)
      return now() + Math.min(firstRetryDelayMs * 2 ** retries, maxRetryDelayMs) * (0.5 + random() / 2);
    return retryAfterMs > maxRetryDelayMs ? undefined : now() + retryAfterMs * (1 + random() / 10);
  }

  #report(
    { candidate, attemptNumber, candidateIndex }: Attempt,
    failure?: UpstreamFailure,
    retryDelayMs?: number,
  ): void {
    this.#options.onAttempt?.({
      candidate,
      attemptNumber,
      candidateIndex,
      ...(failure ? { failure } : {}),
      ...(retryDelayMs === undefined ? {} : { retryDelayMs }),
    });
  }
}

/** The limits of an operator's deployment; a caller's own credential has those of its provider only. */
const limitsOf = ({ route, credential }: Candidate): Partial<Deployment> =>
  credential.kind === 'house' ? (route?.deployment ?? {}) : {};

/** Whether another provider may answer the request: not when the request itself is at fault. */
const isDeploymentFailure = ({ isRetryable, error }: UpstreamFailure): boolean =>
  isRetryable || error.status >= 500;

/** A breaker counts the request of a deployment once, however many attempts it had. */
function reportOnce(ticket: BreakerTicket): BreakerTicket {
  let isReported = false;
  const once = (report: () => void) => () => {
    if (!isReported) report();
    isReported = true;
  };
  return {
    isProbe: ticket.isProbe,
    markSucceeded: once(() => ticket.markSucceeded()),
    markFailed: once(() => ticket.markFailed()),
    discard: once(() => ticket.discard()),
  };
}

function reportOutcome(failure: UpstreamFailure, ticket: BreakerTicket): void {
  if (failure.isUnhealthy) ticket.markFailed();
  // A refused request is a working provider.
  else if (failure.isRetryable) ticket.discard();
  else ticket.markSucceeded();
}
