/** The state of a budget at a time. Amounts are in nanodollars. */
export interface Budget {
  readonly id: string;
  /** Whose requests it limits: those of a key, or of an account with all accounts below it. */
  readonly owner: { readonly kind: 'key' | 'account'; readonly id: string };
  /** The account, or that of the key. */
  readonly accountId: string;
  /** `day`, `week`, `month`, or hours or days such as `12h` and `30d`. */
  readonly period: string;
  /** The time zone of a calendar period. */
  readonly timeZone: string | undefined;
  readonly amount: bigint;
  readonly spent: bigint;
  readonly held: bigint;
  /** When it allows more; undefined when nothing is spent in a rolling period. */
  readonly resetsAt: string | undefined;
}

export interface NewBudget {
  /** Id of a key, or id or name of an account. */
  readonly owner: { readonly kind: 'key' | 'account'; readonly id: string };
  readonly period: string;
  readonly timeZone?: string;
  readonly amount: bigint;
}
