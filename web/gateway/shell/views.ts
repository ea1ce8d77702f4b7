import type { ComponentType } from 'react';
import { Accounts } from '../views/accounts/index.tsx';
import { Catalog } from '../views/catalog/index.tsx';
import { Changes } from '../views/changes/index.tsx';
import { Keys } from '../views/keys/index.tsx';
import { Providers } from '../views/providers/index.tsx';
import { Receipts } from '../views/receipts/index.tsx';
import { UsageView } from '../views/usage/index.tsx';

export interface View {
  /** The first segment of its paths; the listener knows them (src/gateway/operator/pages.ts). */
  readonly path: string;
  readonly title: string;
  readonly group: 'Spend' | 'Routing' | 'Records';
  readonly component: ComponentType;
}

/** Views. All are loaded with the page: one opens also while the gateway does not answer. A view handles the paths below its own. */
export const views: readonly View[] = [
  { path: 'keys', title: 'Keys', group: 'Spend', component: Keys },
  {
    path: 'accounts',
    title: 'Accounts',
    group: 'Spend',
    component: Accounts,
  },
  {
    path: 'usage',
    title: 'Usage',
    group: 'Spend',
    component: UsageView,
  },
  {
    path: 'catalog',
    title: 'Catalog',
    group: 'Routing',
    component: Catalog,
  },
  {
    path: 'providers',
    title: 'Providers',
    group: 'Routing',
    component: Providers,
  },
  {
    path: 'receipts',
    title: 'Receipts',
    group: 'Records',
    component: Receipts,
  },
  {
    path: 'changes',
    title: 'Changes',
    group: 'Records',
    component: Changes,
  },
];
