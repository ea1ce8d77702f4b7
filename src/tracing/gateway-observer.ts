/** One attempt at a provider, when it has ended. */
export interface AttemptEvent {
  readonly requestId: string;
  /** As in the catalog, or `kind:slug` of a caller's own endpoint. */
  readonly provider: string;
  readonly model: string;
  readonly attemptNumber: number;
  /** Until the head of the provider's answer; undefined where there was none. */
  readonly responseMs?: number;
  /** From the request to the provider until it answered or failed; undefined where nothing was sent. */
  readonly elapsedMs?: number;
  /** `status` is what the caller would get. */
  readonly failure?: { readonly status: number; readonly code: string };
  /** Delay before the next attempt at the same model; undefined where there is none, or it follows at once at another deployment. */
  readonly retryDelayMs?: number;
}

/** A second deployment was asked because the first one was slow. */
export interface HedgeEvent {
  readonly requestId: string;
  readonly model: string;
  /** The provider that was asked second. */
  readonly provider: string;
  /** Whether it answered, the first one did, or neither. */
  readonly outcome: 'won' | 'lost' | 'failed';
}

/** The circuit breaker of an operator's model opened or closed. */
export interface BreakerEvent {
  readonly provider: string;
  readonly model: string;
  readonly isOpen: boolean;
}

/** A transaction of the ledger. */
export interface CommitEvent {
  readonly operations: number;
  readonly ms: number;
  readonly isCommitted: boolean;
}

/** A request was looked up in the cache of answers. */
export interface CacheLookupEvent {
  readonly model: string;
  readonly isHit: boolean;
}

/** A hook was asked. */
export interface HookEvent {
  readonly hook: string;
  readonly stage: 'before' | 'after';
  readonly outcome: 'allowed' | 'blocked' | 'replaced' | 'failed';
  readonly ms: number;
}

/** Is told what happens within the gateway. Called synchronously, so it must not throw or block. */
export interface GatewayObserver {
  readonly onAttempt?: (event: AttemptEvent) => void;
  readonly onHedge?: (event: HedgeEvent) => void;
  readonly onBreaker?: (event: BreakerEvent) => void;
  readonly onCommit?: (event: CommitEvent) => void;
  readonly onCacheLookup?: (event: CacheLookupEvent) => void;
  readonly onHook?: (event: HookEvent) => void;
}

/** Tells several observers. */
export const combineObservers = (observers: readonly GatewayObserver[]): Required<GatewayObserver> => ({
  onAttempt(event) {
    for (const { onAttempt } of observers) onAttempt?.(event);
  },
  onHedge(event) {
    for (const { onHedge } of observers) onHedge?.(event);
  },
  onBreaker(event) {
    for (const { onBreaker } of observers) onBreaker?.(event);
  },
  onCommit(event) {
    for (const { onCommit } of observers) onCommit?.(event);
  },
  onCacheLookup(event) {
    for (const { onCacheLookup } of observers) onCacheLookup?.(event);
  },
  onHook(event) {
    for (const { onHook } of observers) onHook?.(event);
  },
});

/** The state of a gateway's ledger now. */
export interface LedgerState {
  /** Holds that this gateway placed and has not settled. */
  readonly openHolds: number;
  /** Settlements that failed and are retried. */
  readonly unsettled: number;
  /** Operations that wait for a transaction of the ledger. */
  readonly queuedOperations: number;
}

/** The configuration of a gateway that can reload it. */
export interface ConfigState {
  readonly version: number;
  /** Whether it is the newest version of the database's gateways. */
  readonly isNewest: boolean;
  /** Set while what the files say cannot be used: since when, and why. */
  readonly refused?: { readonly at: string; readonly faults: readonly string[] } | undefined;
  /** Number of reloads by their result. */
  readonly reloads: Readonly<Record<'replaced' | 'unchanged' | 'refused', number>>;
}

/** The state of a gateway now. */
export interface GatewayState extends LedgerState {
  readonly requestsInFlight: number;
  /** Undefined where the configuration stays. */
  readonly config?: ConfigState;
  /** The breakers of operators' models that were asked since the start. */
  readonly breakers: readonly BreakerEvent[];
}

/** What a notice for the operator is about, as members of a JSON log. `code` names its kind. */
export type NoticeMembers = { readonly code: string } & Readonly<
  Record<string, string | number | boolean | undefined>
>;

/** Is told a message for the operator: one sentence, and what it is about where programs may react to it. */
export type NoticeHandler = (message: string, members?: NoticeMembers) => void;
