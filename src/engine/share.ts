import type { Sequence } from './sequence.ts';

/** What a step gives to one sequence. */
export interface Share {
  readonly sequence: Sequence;
  /** Its count when the step was formed: results of a place it has given back since are dropped. */
  readonly departures: number;
  /** The sample of its next token, behind which there is one after each draft; undefined: none is drawn. */
  readonly first: number | undefined;
  readonly drafts: readonly number[];
  /** Another model made them. */
  readonly fromModel: boolean;
  /** Samples that score tokens of its prompt. */
  readonly scores: { readonly first: number; readonly count: number };
  /** Nothing is to follow its prompt, which ends here. */
  readonly isLast: boolean;
  /** Tokens of its text that are evaluated when the step is done, where the step prefills and its progress is reported. */
  readonly evaluated: number | undefined;
}

/** A step whose forward pass is submitted. */
export interface InFlight {
  readonly shares: readonly Share[];
  readonly rows: number;
  readonly samples: number;
  readonly drafts: number;
  readonly prefillTokens: number;
  /** Of the round of the draft model before it; 0 without one. */
  readonly roundMs: number;
  /** It takes longer than its tokens alone would: it scores some, or waits for constraints. */
  readonly isUnusual: boolean;
  /** Another step was running when it was submitted. */
  readonly pipelined: boolean;
  readonly submitted: number;
  /** Its forward pass is submitted when that resolves; at once without it. */
  readonly forwarded: Promise<void> | undefined;
  /** Undefined before its sampling is submitted, which waits for what constraints allow. */
  results: Promise<Uint32Array> | undefined;
}

export const noDrafts: readonly number[] = [];
export const noScores: Share['scores'] = { first: 0, count: 0 };

/** The sequence ended, or gave its place back, after the step was formed. */
export const isStale = ({ sequence, departures }: Share): boolean =>
  sequence.phase === 'done' || sequence.departures !== departures;

/** Its draw waits for its constraint. */
export const isConstrained = ({ sequence, first }: Share): boolean =>
  first !== undefined && sequence.request.constraint !== undefined;

/** A further token of its answer is to be drawn. */
export const isDecoding = ({ phase, drawn, request }: Sequence): boolean =>
  phase === 'decode' && drawn < request.maxTokens;
