import { FaultNote, Page } from '../../../ui/index.tsx';
import { ConnectPanel } from './connect-panel.tsx';
import { FirstSteps } from './first-steps.tsx';
import css from './home.module.css';
import { IdentityPanel } from './identity-panel.tsx';
import { useInfo } from './info.ts';
import { ModelPanel } from './model-panel.tsx';
import { PlanesPanel } from './planes-panel.tsx';
import { UsagePanel } from './usage-panel.tsx';
import { WaitingPanel } from './waiting-panel.tsx';

/** Overview of the host: how programs reach it, what to try first, what waits, and what it runs. */
export function Home() {
  const info = useInfo();
  const { data } = info;
  const hasAgents = data?.capabilities.includes('agent') ?? false;
  return (
    <Page title="This host" lead="Send requests from your programs, or try the host on these pages.">
      {info.isError && <FaultNote error={info.error} retry={() => void info.refetch()} />}
      <div className={css['start']}>
        <ConnectPanel model={data?.model} />
        <div className={css['column']}>
          <FirstSteps info={data} />
          {hasAgents && <WaitingPanel />}
        </div>
      </div>
      <div className={css['panels']}>
        <ModelPanel model={data?.model} loaded={data?.models ?? []} />
        <UsagePanel />
        {data && <PlanesPanel names={data.capabilities} />}
        {data && <IdentityPanel info={data} />}
      </div>
    </Page>
  );
}
