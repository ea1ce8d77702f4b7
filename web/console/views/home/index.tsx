import { Link } from 'wouter';
import { Badge, Facts, FaultNote, Loading, Page, Panel, Row } from '../../parts/index.tsx';
import css from './home.module.css';
import { useInfo } from './info.ts';
import { ModelPanel } from './model-panel.tsx';
import { describePlane } from './planes.ts';
import { UsagePanel } from './usage-panel.tsx';

const tierTexts = {
  none: 'none: commands of agents are not sandboxed',
  path: 'path: tools are limited to the granted paths',
  os_sandbox: 'OS sandbox: commands of agents run sandboxed',
};

/** Overview of the host. */
export function Home() {
  const info = useInfo();
  const { data } = info;
  return (
    <Page
      title="This host"
      lead="The resident model, the device it runs on, and the planes that the host serves."
    >
      <div className={css['panels']}>
        <ModelPanel model={data?.model} loaded={data?.models ?? []} />
        <UsagePanel />
        <Panel title="Host">
          {info.isPending && <Loading what="host information" />}
          {info.isError && <FaultNote error={info.error} retry={() => void info.refetch()} />}
          {data && (
            <Facts
              facts={[
                ['Version', `${data.host_version}, contract ${data.contract_version}`],
                ['Endpoint', <code key="id">{data.endpoint_id}</code>],
                ['Agent model', data.planner.disclosure],
                ['Enforcement tier', tierTexts[data.enforcement_tier]],
                ...(data.receipt_key
                  ? ([['Receipt key', <code key="key">{data.receipt_key.key_id}</code>]] as const)
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
              <p>No adapter is in use. The host opens one when it loads a model.</p>
            )}
          </Panel>
        )}
        {data && (
          <Panel title="Planes" className={css['wide']}>
            <ul className={css['planes']}>
              {data.capabilities.map((name) => {
                const { description, path } = describePlane(name);
                return (
                  <li key={name}>
                    {path === undefined ? (
                      <strong>{name}</strong>
                    ) : (
                      <Link href={path}>
                        <strong>{name}</strong>
                      </Link>
                    )}{' '}
                    {description}
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
