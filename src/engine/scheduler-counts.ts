/** Totals that outlive a scheduler: a lost device gets a new one. */
export interface SchedulerCounts {
  /** Sequences that gave their place back for lack of pages. */
  preemptions: number;
  drafted: number;
  accepted: number;
  /** Of those, what another model guessed. */
  byModel: { drafted: number; accepted: number };
}

export const noCounts = (): SchedulerCounts => ({
  preemptions: 0,
  drafted: 0,
  accepted: 0,
  byModel: { drafted: 0, accepted: 0 },
});
