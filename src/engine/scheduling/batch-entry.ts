import type { Sequence } from './sequence.ts';

/** One sequence's part of a step. */
export interface BatchEntry {
  readonly sequence: Sequence;
  /** The sequence's epoch when the step was formed; results are dropped when it was preempted since. */
  readonly preemptionEpoch: number;
  /**
   * Index of the sample of the next token, followed by one sample for each draft; undefined when no token is sampled.
   */
  readonly firstSample: number | undefined;
  readonly drafts: readonly number[];
  /** The drafts come from the draft model. */
  readonly isFromDraftModel: boolean;
  /** Samples that score prompt tokens. */
  readonly scores: { readonly first: number; readonly count: number };
  /** Index of the sample with the hidden state of the prompt's last token; undefined when it is not requested. */
  readonly hiddenStateSample: number | undefined;
  /** The sequence ends after its prompt, which is complete in this step. */
  readonly endsAfterPrompt: boolean;
  /** Tokens of the text evaluated after the step; only set when the step prefills and progress is reported. */
  readonly evaluatedTokens: number | undefined;
}

/** A step whose forward pass is submitted. */
export interface InFlightStep {
  readonly entries: readonly BatchEntry[];
  readonly rows: number;
  readonly samples: number;
  readonly drafts: number;
  readonly prefillTokens: number;
  /** Time in ms of the draft round before the step; 0 without one. */
  readonly draftRoundMs: number;
  /** The step takes longer than its tokens explain: it scores prompt tokens, or waits for constraints. */
  readonly hasExtraWork: boolean;
  /** Another step was running when this one was submitted. */
  readonly isPipelined: boolean;
  readonly submittedAt: number;
  /** Resolves when the forward pass is submitted; undefined when it was submitted immediately. */
  readonly forwardSubmitted: Promise<void> | undefined;
  /** Undefined until the sampling is submitted, which waits for masks. */
  results: Promise<Uint32Array> | undefined;
}

export const noDrafts: readonly number[] = [];
export const noScores: BatchEntry['scores'] = { first: 0, count: 0 };

/** True when the sequence ended or was preempted after the step was formed. */
export const isStale = ({ sequence, preemptionEpoch }: BatchEntry): boolean =>
  sequence.phase === 'done' || sequence.preemptionEpoch !== preemptionEpoch;

/** True when sampling must wait for the sequence's constraint. */
export const isConstrained = ({ sequence, firstSample }: BatchEntry): boolean =>
  firstSample !== undefined && sequence.request.constraint !== undefined;

/** True when another output token is to be sampled. */
export const isDecoding = ({ phase, sampledTokens, request }: Sequence): boolean =>
  phase === 'decode' && sampledTokens < request.maxTokens;
