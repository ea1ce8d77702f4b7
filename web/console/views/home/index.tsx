import { Link } from 'wouter';
import { Badge, Facts, FaultNote, Loading, Page, Panel, Row } from '../../parts/index.tsx';
import css from './home.module.css';
import { useInfo } from './info.ts';
import { ModelPanel } from './model-panel.tsx';
import { planeOf } from './planes.ts';
import { ServedPanel } from './served-panel.tsx';

const tiers = {
  none: 'none: what agents run is not confined',
  path: 'path: tools are held to the paths they were granted',
  os_sandbox: 'sandbox of the system: commands of agents run confined',
};

/** What is running here. */
export function Home() {
  const info = useInfo();
  const { data } = info;
  return (
    <Page title="This host" lead="One resident model, the kernels it runs on, and what works with it.">
      <div className={css['panels']}>
        <ModelPanel model={data?.model} />
        <ServedPanel />
        <Panel title="Host">
          {info.isPending && <Loading what="the host's facts" />}
          {info.isError && <FaultNote error={info.error} retry={() => void info.refetch()} />}
          {data && (
            <Facts
              facts={[
                ['Version', `${data.host_version}, contract ${data.contract_version}`],
                ['Endpoint', <code key="id">{data.endpoint_id}</code>],
                ['Planner', data.planner.disclosure],
                ['Confinement', tiers[data.enforcement_tier]],
                ...(data.receipt_key
                  ? ([['Signs with', <code key="key">{data.receipt_key.key_id}</code>]] as const)
                  : []),
              ]}
            />
          )}
        </Panel>
        {data && (
          <Panel title="Adapter">
            {data.adapter ? (
              <>
                <Facts
                  facts={[
                    ['Device', data.adapter.description],
                    ['Backend', data.adapter.backend],
                    ['Vendor', data.adapter.vendor],
                  ]}
                />
                <Row>
                  {data.adapter.features.map((feature) => (
                    <Badge key={feature}>{feature}</Badge>
                  ))}
                </Row>
              </>
            ) : (
              <p>No adapter is in use: it is taken together with a model.</p>
            )}
          </Panel>
        )}
        {data && (
          <Panel title="Planes" className={css['wide']}>
            <ul className={css['planes']}>
              {data.capabilities.map((name) => {
                const { what, path } = planeOf(name);
                return (
                  <li key={name}>
                    {path === undefined ? (
                      <strong>{name}</strong>
                    ) : (
                      <Link href={path}>
                        <strong>{name}</strong>
                      </Link>
                    )}{' '}
                    {what}
                  </li>
                );
              })}
            </ul>
          </Panel>
        )}
      </div>
    </Page>
  );
}
