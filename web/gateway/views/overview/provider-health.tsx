import { Link } from 'wouter';
import { Empty, Panel, Table } from '../../../ui/index.tsx';
import { Loaded } from '../../parts/loaded.tsx';
import { useProviders } from '../../queries.ts';
import { DeploymentBadge, LastError } from '../providers/health.tsx';

/** Deployments that are disabled, or failed last. */
export function ProviderHealth() {
  return (
    <Panel title="Provider health" tools={<Link href="/providers">All providers</Link>}>
      <Loaded read={useProviders()} what="the providers">
        {(providers) => {
          const all = providers.flatMap((provider) =>
            provider.deployments.map((deployment) => ({ provider, deployment })),
          );
          const troubled = all.filter(
            ({ provider, deployment: one }) =>
              provider.disabled !== null || one.disabled !== null || one.breaker_open || one.cooldown_ms > 0,
          );
          if (troubled.length === 0)
            return (
              <Empty title={all.length === 0 ? 'There are no providers.' : 'All deployments are available.'}>
                {all.length === 0
                  ? 'Add a provider and its models to the configuration, then reload it.'
                  : `${all.length} deployments of ${providers.length} providers.`}
              </Empty>
            );
          return (
            <Table
              caption="Deployments that are not available"
              rows={troubled}
              keyOf={({ provider, deployment }) => `${provider.id} ${deployment.model}`}
              columns={[
                { key: 'provider', head: 'Provider', cell: ({ provider }) => provider.id },
                { key: 'model', head: 'Model', cell: ({ deployment }) => deployment.model },
                {
                  key: 'state',
                  head: 'State',
                  cell: ({ provider, deployment }) => (
                    <DeploymentBadge deployment={deployment} provider={provider} />
                  ),
                },
                {
                  key: 'error',
                  head: 'Last error',
                  cell: ({ deployment }) => <LastError error={deployment.last_error} />,
                },
              ]}
            />
          );
        }}
      </Loaded>
    </Panel>
  );
}
