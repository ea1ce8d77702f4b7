import { useQuery } from '@tanstack/react-query';
import { consolePath } from '../agents/parts.tsx';
import { api, unwrap } from '../../api/client.ts';
import { kernelPath } from '../views/lab/kernels/paths.ts';
import { useParts } from '../views/lab/kernels/queries.ts';
import { useModels } from '../views/models/queries.ts';
import type { PaletteEntry } from './palette-search.ts';
import { views } from './views.ts';
import { stateLabel } from '../../ui/states.ts';

const subpages = [
  ['lab/kernels', 'Lab: kernels'],
  ['lab/bench', 'Lab: bench'],
  ['lab/configs', 'Lab: configs'],
  ['tasks/agents', 'Tasks: agents'],
  ['pending/acts', 'Pending changes: action journal'],
  ['sessions/receipts', 'Sessions: receipts'],
] as const;

const pages: readonly PaletteEntry[] = [
  { group: 'Views', title: 'Home', href: '/console' },
  ...views.map(({ path, title }) => ({ group: 'Views', title, href: `/console/${path}` })),
  ...subpages.map(([path, title]) => ({ group: 'Views', title, href: `/console/${path}` })),
];

const documents: readonly PaletteEntry[] = [
  { group: 'Documents', title: 'API reference', href: '/docs', isOtherPage: true },
  { group: 'Documents', title: 'OpenAPI document', href: '/openapi.json', isOtherPage: true },
  { group: 'Documents', title: 'Browser demo', href: '/demo/', isOtherPage: true },
];

/** Everything that the palette finds: views, models, registered kernels, runs and documents. */
export function usePaletteEntries(): readonly PaletteEntry[] {
  const models = useModels().data?.models ?? [];
  const kernels = useParts().data?.kernels ?? [];
  const runs = useQuery({
    queryKey: ['runs', 100],
    queryFn: () => unwrap(api.GET('/agent/v1/workflows/runs', { params: { query: { limit: '100' } } })),
  });
  return [
    ...pages,
    ...models.map(({ name, role, architecture, quantization }) => ({
      group: 'Models',
      title: name,
      detail: [role, architecture, quantization].filter(Boolean).join(', '),
      href: `/console/models?name=${encodeURIComponent(name)}`,
    })),
    ...kernels.map(({ name, op, state }) => ({
      group: 'Registered kernels',
      title: name,
      detail: `${op}, ${state}`,
      href: kernelPath(name),
    })),
    ...(runs.data ?? []).map(({ id, workflow, state }) => ({
      group: 'Runs',
      title: workflow,
      detail: `${stateLabel(state)}, ${id}`,
      href: consolePath.run(id),
    })),
    ...documents,
  ];
}
