import type { Finding } from '../../lab/types.ts';

/** A kernel to try: WGSL with `//!` directives. */
export interface Proposal {
  readonly source: string;
  /** What is different about it, for the table. */
  readonly idea: string;
}

/** What became of a proposal. Only those that were benched can be kept. */
export const benchedVerdicts = ['faster', 'no_difference', 'inconclusive', 'slower'] as const;
export const verdicts = [
  ...benchedVerdicts,
  /** Skips work, or computes something else than the built-in kernels in the bench. */
  'suspect',
  /** Equal to an earlier attempt. */
  'duplicate',
  /** The directives of the source are invalid, or it is for another op. */
  'invalid',
  'rejected',
  /** Accepted with a warning that says that it was not checked everywhere. */
  'flagged',
  'not_bindable',
  'parity_failed',
  /** The host was lost while it was tried. */
  'host_lost',
  /** The search was killed twice while it was tried. */
  'interrupted',
] as const;
export type AttemptVerdict = (typeof verdicts)[number];

/** A tried proposal. */
export interface Attempt {
  readonly n: number;
  /** `mechanical`, `command` or `model`. */
  readonly by: string;
  readonly idea: string;
  readonly source: string;
  readonly verdict: AttemptVerdict;
  /** Findings and messages that explain the verdict. */
  readonly findings: readonly Pick<Finding, 'code' | 'severity' | 'message' | 'line'>[];
  /** Time of the built-in kernels by time with this one, with its 95 % interval. */
  readonly ratio?: number;
  readonly low?: number;
  readonly high?: number;
  readonly elapsed_ms: number;
}

/** What a proposer knows. Sent to a command as JSON. */
export interface SearchState {
  readonly op: string;
  readonly goal: 'decode' | 'prefill';
  /** A correct kernel with comments on the bindings. */
  readonly stub: string;
  readonly best: Attempt | undefined;
  readonly last: Attempt | undefined;
  /** Hints of the profile of the last attempt that was benched. */
  readonly hints: readonly string[];
  readonly attempts: readonly Omit<Attempt, 'source'>[];
  readonly remaining_s: number;
}

export type ProposerAnswer =
  | { readonly kind: 'proposal'; readonly proposal: Proposal }
  /** It has nothing left to propose. */
  | { readonly kind: 'done' }
  | { readonly kind: 'failed'; readonly message: string };

export interface Proposer {
  readonly name: string;
  propose(state: SearchState, signal: AbortSignal): Promise<ProposerAnswer>;
}
