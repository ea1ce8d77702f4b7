/** Totals over all schedulers of an engine; each new device gets a new scheduler. */
export interface SchedulerCounts {
  /** Sequences preempted for lack of pages. */
  preemptions: number;
  drafted: number;
  accepted: number;
  /** The part that the draft model drafted. */
  byModel: { drafted: number; accepted: number };
}

export const zeroCounts = (): SchedulerCounts => ({
  preemptions: 0,
  drafted: 0,
  accepted: 0,
  byModel: { drafted: 0, accepted: 0 },
});
