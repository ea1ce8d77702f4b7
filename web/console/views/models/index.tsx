import { FaultNote, Loading, Page, Panel } from '../../../ui/index.tsx';
import { formatBytes } from '../../../ui/format.ts';
import { KernelsPanel } from './kernels-panel.tsx';
import { ModelTable } from './model-table.tsx';
import css from './models.module.css';
import { PullPanel } from './pull-panel.tsx';
import { useUrlState } from '../../../ui/url-state.ts';
import { useModels } from './queries.ts';
import { RolesPanel } from './roles-panel.tsx';

export default function View() {
  const models = useModels();
  const [name] = useUrlState('name');
  const { data } = models;
  return (
    <Page title="Models" lead="Models of this host: stored, loaded, and what each is for.">
      <Panel
        title="Models"
        tools={
          data?.available_bytes != null && (
            <span className={css['muted']}>{formatBytes(data.available_bytes)} for another model</span>
          )
        }
      >
        {models.isPending && <Loading what="the models" />}
        {models.isError && <FaultNote error={models.error} retry={() => void models.refetch()} />}
        {data && <ModelTable loading={data.loading} models={data.models} chosen={name} />}
      </Panel>
      <div className={css['panels']}>
        <PullPanel />
        {data && <RolesPanel loading={data.loading} models={data.models} />}
      </div>
      {data?.models.some(({ role }) => role === 'resident') && <KernelsPanel />}
    </Page>
  );
}
