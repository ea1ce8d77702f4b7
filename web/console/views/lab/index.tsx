import { type ComponentType, lazy, Suspense } from 'react';
import { useLocation } from 'wouter';
import { Loading, Page, Tabs } from '../../../ui/index.tsx';
import { BenchRunsProvider } from './bench-runs.tsx';

const tabs = [
  { name: '', title: 'Graph', component: lazy(() => import('./graph/index.tsx')) },
  { name: 'kernels', title: 'Kernels', component: lazy(() => import('./kernels/index.tsx')) },
  { name: 'bench', title: 'Bench', component: lazy(() => import('./bench/index.tsx')) },
  { name: 'configs', title: 'Configs', component: lazy(() => import('./configs/index.tsx')) },
] as const satisfies readonly { name: string; title: string; component: ComponentType }[];

/** The kernel lab. Each tab handles the paths below its own. */
export default function View() {
  const [location, navigate] = useLocation();
  const segment = location.split('/')[3] ?? '';
  const chosen = tabs.find(({ name }) => name === segment) ?? tabs[0];
  const Chosen = chosen.component;
  return (
    <Page
      title="Lab"
      lead="Inspect the kernels of the resident model, write your own, bind them while the model runs, and measure the result."
    >
      <Tabs
        label="Lab"
        tabs={tabs}
        selected={chosen.name}
        onSelect={(name) => navigate(`/console/lab${name === '' ? '' : `/${name}`}`)}
      >
        <BenchRunsProvider>
          <Suspense fallback={<Loading what={chosen.title.toLowerCase()} />}>
            <Chosen />
          </Suspense>
        </BenchRunsProvider>
      </Tabs>
    </Page>
  );
}
