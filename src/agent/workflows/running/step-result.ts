import type { StoredGate } from './stored-gate.ts';

/** What became of a step. */
export type StepResult =
  /** The step has ended or passed its gate; continue at the next step boundary. */
  | { readonly kind: 'go_on' }
  | { readonly kind: 'failed'; readonly error: string }
  | { readonly kind: 'cancelled' }
  | { readonly kind: 'suspended'; readonly gate: StoredGate }
  | { readonly kind: 'stopped' };

/** What became of the steps of a workflow. */
export type StepsResult = { readonly kind: 'completed' } | Exclude<StepResult, { readonly kind: 'go_on' }>;
