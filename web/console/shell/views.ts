import { type ComponentType, lazy } from 'react';

export interface View {
  /** The segment below `/console/`. */
  readonly path: string;
  readonly title: string;
  readonly group: 'Model' | 'Agents' | 'Host';
  readonly component: ComponentType;
}

/** Views, loaded on first use. A view handles the paths below its own. */
export const views: readonly View[] = [
  { path: 'chat', title: 'Chat', group: 'Model', component: lazy(() => import('../views/chat/index.tsx')) },
  {
    path: 'models',
    title: 'Models',
    group: 'Model',
    component: lazy(() => import('../views/models/index.tsx')),
  },
  { path: 'lab', title: 'Lab', group: 'Model', component: lazy(() => import('../views/lab/index.tsx')) },
  {
    path: 'tasks',
    title: 'Tasks',
    group: 'Agents',
    component: lazy(() => import('../views/tasks/index.tsx')),
  },
  {
    path: 'pending',
    title: 'Pending changes',
    group: 'Agents',
    component: lazy(() => import('../views/pending/index.tsx')),
  },
  {
    path: 'workflows',
    title: 'Workflows',
    group: 'Agents',
    component: lazy(() => import('../views/workflows/index.tsx')),
  },
  { path: 'runs', title: 'Runs', group: 'Agents', component: lazy(() => import('../views/runs/index.tsx')) },
  {
    path: 'sessions',
    title: 'Sessions',
    group: 'Host',
    component: lazy(() => import('../views/sessions/index.tsx')),
  },
  {
    path: 'observe',
    title: 'Observe',
    group: 'Host',
    component: lazy(() => import('../views/observe/index.tsx')),
  },
  {
    path: 'recorder',
    title: 'Recorder',
    group: 'Host',
    component: lazy(() => import('../views/recorder/index.tsx')),
  },
];
