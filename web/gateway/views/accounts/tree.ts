import type { Account } from '../../api.ts';

export interface TreeRow {
  readonly account: Account;
  /** 0: no account above. */
  readonly depth: number;
  /** Names from the top, this one last. */
  readonly path: readonly string[];
}

/** Accounts in the order of their tree: each one before those below it, siblings by name. */
export function toTree(accounts: readonly Account[]): TreeRow[] {
  const ids = new Set(accounts.map(({ id }) => id));
  const below = Map.groupBy(accounts, ({ parent }) => (parent !== null && ids.has(parent) ? parent : ''));
  const rows: TreeRow[] = [];
  const add = (parent: string, depth: number, path: readonly string[]) => {
    const children = (below.get(parent) ?? []).toSorted((one, other) =>
      one.name.localeCompare(other.name, 'en', { numeric: true }),
    );
    for (const account of children) {
      const own = [...path, account.name];
      rows.push({ account, depth, path: own });
      add(account.id, depth + 1, own);
    }
  };
  add('', 0, []);
  return rows;
}
