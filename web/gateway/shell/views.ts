import { type ComponentType, lazy } from 'react';

export interface View {
  /** The first segment of its paths; the listener knows them (src/gateway/operator/pages.ts). */
  readonly path: string;
  readonly title: string;
  readonly group: 'Spend' | 'Routing' | 'Records';
  readonly component: ComponentType;
}

/** Views, loaded on first use. A view handles the paths below its own. */
export const views: readonly View[] = [
  { path: 'keys', title: 'Keys', group: 'Spend', component: lazy(() => import('../views/keys/index.tsx')) },
  {
    path: 'accounts',
    title: 'Accounts',
    group: 'Spend',
    component: lazy(() => import('../views/accounts/index.tsx')),
  },
  {
    path: 'usage',
    title: 'Usage',
    group: 'Spend',
    component: lazy(() => import('../views/usage/index.tsx')),
  },
  {
    path: 'catalog',
    title: 'Catalog',
    group: 'Routing',
    component: lazy(() => import('../views/catalog/index.tsx')),
  },
  {
    path: 'providers',
    title: 'Providers',
    group: 'Routing',
    component: lazy(() => import('../views/providers/index.tsx')),
  },
  {
    path: 'receipts',
    title: 'Receipts',
    group: 'Records',
    component: lazy(() => import('../views/receipts/index.tsx')),
  },
  {
    path: 'changes',
    title: 'Changes',
    group: 'Records',
    component: lazy(() => import('../views/changes/index.tsx')),
  },
];
