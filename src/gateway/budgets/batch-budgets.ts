import type { HoldRow } from '../ledger/operations.ts';
import { toBudget } from './budget.ts';
import {
  type BudgetNotice,
  formatNoticed,
  newThresholds,
  type NoticeReason,
  parseNoticed,
} from './notices.ts';
import type { Budget } from './types.ts';
import { addSpending, advance, type BudgetRow } from './window.ts';

/** An account above another one. */
export interface AncestorRow {
  readonly account_id: string;
  readonly ancestor_id: string;
  readonly disabled_at: string | null;
}

/** The rows that the budgets of one commit need; the budgets are locked. */
export interface LockedBudgets {
  readonly budgets: readonly BudgetRow[];
  readonly ancestors: readonly AncestorRow[];
}

/**
 * The budgets of one commit. A hold names the budgets that it counts in, so that it leaves the same ones, whatever was added,
 * removed or moved in the meantime.
 */
export class BatchBudgets {
  readonly #before: ReadonlyMap<string, BudgetRow>;
  readonly #budgets: Map<string, BudgetRow>;
  readonly #byOwner = new Map<string, string[]>();
  readonly #ancestors = new Map<string, AncestorRow[]>();
  readonly #notices: BudgetNotice[] = [];

  constructor({ budgets, ancestors }: LockedBudgets) {
    this.#before = new Map(budgets.map((row) => [row.id, row]));
    this.#budgets = new Map(this.#before);
    for (const { id, owner_id } of this.#before.values())
      this.#byOwner.set(owner_id, [...(this.#byOwner.get(owner_id) ?? []), id]);
    for (const row of ancestors)
      this.#ancestors.set(row.account_id, [...(this.#ancestors.get(row.account_id) ?? []), row]);
  }

  /** Whether an account above this one is disabled. */
  isDisabled(accountId: string): boolean {
    return (this.#ancestors.get(accountId) ?? []).some(({ disabled_at }) => disabled_at !== null);
  }

  /**
   * Finds the first budget that does not cover a hold: those of the key, of its account, and of the accounts above.
   * @param isTrial a smaller hold is tried next; otherwise the first refusal of the budget's period gives notice
   */
  findExceeded(hold: HoldRow, isTrial = false): Budget | undefined {
    // What the caller pays to its provider costs nothing here.
    if (hold.amount === 0n) return undefined;
    for (const budget of this.#ofRequest(hold)) {
      const at = hold.reserved_at;
      const state = advance(budget, at);
      if (state.spent + state.held + hold.amount <= state.amount) continue;
      if (!isTrial && parseNoticed(state.noticed).refused === undefined)
        this.#budgets.set(state.id, this.#notice(state, ['refused'], at));
      return toBudget(state, at, hold.amount);
    }
    return undefined;
  }

  /** Adds a hold to its budgets. @returns the hold, which names them */
  open(hold: HoldRow): HoldRow {
    const budgets = this.#ofRequest(hold);
    if (budgets.length === 0) return hold;
    for (const budget of budgets) {
      const state = advance(budget, hold.reserved_at);
      this.#budgets.set(budget.id, { ...state, held: state.held + hold.amount });
    }
    return { ...hold, budgets: budgets.map(({ id, owner_id }) => `${owner_id}:${id}`).join(' ') };
  }

  /** Ends a hold, and adds what was charged. */
  close(hold: HoldRow, charged: bigint, at: string): void {
    for (const { id } of budgetsOf(hold)) {
      const budget = this.#budgets.get(id);
      // It may have been removed.
      if (!budget) continue;
      const state = advance(budget, at);
      const spent = addSpending({ ...state, held: state.held - hold.amount }, at, charged);
      this.#budgets.set(id, this.#notice(spent, newThresholds(spent, parseNoticed(spent.noticed)), at));
    }
  }

  /** Adds notices of a budget. @returns the budget, which records them */
  #notice(budget: BudgetRow, reasons: readonly NoticeReason[], at: string): BudgetRow {
    if (reasons.length === 0) return budget;
    for (const reason of reasons) this.#notices.push({ reason, budget: toBudget(budget, at), at });
    const added = Object.fromEntries(reasons.map((reason) => [reason, Date.parse(at)]));
    return { ...budget, noticed: formatNoticed({ ...parseNoticed(budget.noticed), ...added }) };
  }

  /** Notices that this commit gives. */
  get notices(): readonly BudgetNotice[] {
    return this.#notices;
  }

  /** The changed rows. */
  changes(): BudgetRow[] {
    return [...this.#budgets.values()].filter((row) => row !== this.#before.get(row.id));
  }

  #ofRequest({ key_id, account_id }: HoldRow): BudgetRow[] {
    const ancestors = this.#ancestors.get(account_id) ?? [];
    return [key_id, account_id, ...ancestors.map(({ ancestor_id }) => ancestor_id)]
      .flatMap((owner) => this.#byOwner.get(owner) ?? [])
      .flatMap((id) => this.#budgets.get(id) ?? []);
  }
}

/** The budgets that a hold counts in. */
export const budgetsOf = ({ budgets }: Pick<HoldRow, 'budgets'>): { ownerId: string; id: string }[] =>
  // A hold of a gateway of an earlier version has no such member.
  (budgets ?? '').split(' ').flatMap((name) => {
    const [ownerId, id] = name.split(':');
    return ownerId && id ? [{ ownerId, id }] : [];
  });
