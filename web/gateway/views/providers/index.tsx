import { useState } from 'react';
import { formatRelativeTime } from '../../../ui/format.ts';
import { Button, Empty, Facts, FaultNote, Page, Panel, Row, Table } from '../../../ui/index.tsx';
import { api, type Credential, type Deployment, type Provider, unwrap } from '../../api.ts';
import css from '../../gateway.module.css';
import { formatCount } from '../../format.ts';
import { FormDialog } from '../../parts/form-dialog.tsx';
import { Loaded } from '../../parts/loaded.tsx';
import { useChange, useCredentials, useProviders, useStatus } from '../../queries.ts';
import { RefusedConfiguration } from '../overview/refused-configuration.tsx';
import { DeploymentBadge, DisabledFacts, LastError } from './health.tsx';
import { StateBadge } from '../../../ui/state-badge.tsx';

/** Providers: the health of their deployments, their switches and credentials. */
export function Providers() {
  const credentials = useCredentials().data;
  const status = useStatus().data;
  return (
    <Page
      title="Providers"
      lead="Health is what this gateway has seen since its start; another gateway of the database may see another."
      tools={<Reload />}
    >
      <RefusedConfiguration status={status} />
      <Loaded read={useProviders()} what="the providers">
        {(providers) =>
          providers.length === 0 ? (
            <Empty title="The configuration has no provider.">Add one and its models, then reload it.</Empty>
          ) : (
            providers.map((provider) => (
              <ProviderPanel
                key={provider.id}
                provider={provider}
                credential={credentials?.find((one) => one.provider === provider.id)}
              />
            ))
          )
        }
      </Loaded>
    </Page>
  );
}

/** Reads the configuration again; says what became of it. */
function Reload() {
  const reload = useChange(() => unwrap(api.POST('/admin/v1/reload', { body: {} })));
  return (
    <>
      <Button kind="primary" busy={reload.isPending} onClick={() => reload.mutate(undefined)}>
        Reload the configuration
      </Button>
      {reload.isSuccess && (
        <span role="status">
          {reload.data.outcome === 'replaced'
            ? `Version ${reload.data.version} is in force.`
            : `Unchanged: version ${reload.data.version}.`}
        </span>
      )}
      {/* Faults of the configuration are listed below, from the status. */}
      {reload.isError && reload.error.code === 'config_refused' && (
        <span role="status" className={css['fault']}>
          Refused:{' '}
          {reload.error.violations.length === 1 ? '1 fault' : `${reload.error.violations.length} faults`}
        </span>
      )}
      {reload.isError && reload.error.code !== 'config_refused' && <FaultNote error={reload.error} />}
    </>
  );
}

function ProviderPanel({ provider, credential }: { provider: Provider; credential: Credential | undefined }) {
  return (
    <Panel
      title={provider.id}
      tools={
        <Row>
          <StateBadge state={provider.disabled === null ? 'active' : 'disabled'} />
          <Switch provider={provider} />
        </Row>
      }
    >
      <DisabledFacts disabled={provider.disabled} />
      <Facts
        facts={[
          ['Wire', provider.wire],
          ['Base URL', <span key="url">{provider.base_urls.join(', ')}</span>],
          ['Credential', <CredentialText key="credential" provider={provider} credential={credential} />],
        ]}
      />
      {provider.deployments.length === 0 ? (
        <Empty title="No model is served by it.">
          Name it as the provider of a model in the configuration, then reload that.
        </Empty>
      ) : (
        <Table
          caption={`Deployments of ${provider.id}`}
          rows={provider.deployments}
          keyOf={({ model, upstream }) => `${model} ${upstream}`}
          columns={[
            {
              key: 'model',
              head: 'Model',
              cell: ({ model, upstream }) => (
                <span className={css['stack']}>
                  <span>{model}</span>
                  {upstream !== model && <span className={css['small']}>{upstream}</span>}
                </span>
              ),
            },
            {
              key: 'state',
              head: 'State',
              cell: (deployment) => (
                <span className={css['stack']}>
                  <span>
                    <DeploymentBadge deployment={deployment} provider={provider} />
                  </span>
                  {deployment.disabled !== null && (
                    <span className={css['small']}>
                      by {deployment.disabled.by}
                      {deployment.disabled.note === null ? '' : `: ${deployment.disabled.note}`}
                    </span>
                  )}
                </span>
              ),
            },
            {
              key: 'breaker',
              head: 'Breaker',
              cell: ({ breaker_open: isOpen }) => (isOpen ? 'open' : 'closed'),
            },
            {
              key: 'running',
              head: 'Running',
              number: true,
              cell: ({ requests_in_flight: count }) => formatCount(count),
            },
            {
              key: 'used',
              head: 'Last request',
              cell: ({ last_request_at: at }) => (at === null ? 'none' : formatRelativeTime(at)),
            },
            {
              key: 'error',
              head: 'Last error',
              cell: ({ last_error: error }) => <LastError error={error} />,
            },
            {
              key: 'switch',
              head: 'Switch',
              cell: (deployment) => <Switch provider={provider} deployment={deployment} />,
            },
          ]}
        />
      )}
    </Panel>
  );
}

/** Where the key of a provider comes from; never the key. */
function CredentialText({
  provider,
  credential,
}: {
  provider: Provider;
  credential: Credential | undefined;
}) {
  if (credential === undefined) return '...';
  if (credential.source === null)
    return provider.access === 'byok' ? "callers' own keys only" : 'none: the provider gets no key';
  return (
    <>
      {credential.source === 'env' ? 'variable' : 'file'} <code>{credential.name}</code>
      {credential.fingerprint !== null && (
        <>
          , fingerprint <code>{credential.fingerprint}</code>
        </>
      )}
      ,{' '}
      {credential.last_used_at === null
        ? 'not used yet'
        : `used ${formatRelativeTime(credential.last_used_at)}`}
    </>
  );
}

/** Disables a provider, or one model at it, with a note; enables it at once. */
function Switch({ provider, deployment }: { provider: Provider; deployment?: Deployment }) {
  const [isOpen, setOpen] = useState(false);
  const change = useChange((body: { disabled: boolean; note?: string }) =>
    unwrap(
      api.PATCH('/admin/v1/providers/{provider}', {
        params: { path: { provider: provider.id } },
        body: { ...body, ...(deployment ? { model: deployment.model } : {}) },
      }),
    ),
  );
  const what = deployment ? `${deployment.model} at ${provider.id}` : provider.id;
  const isDisabled = (deployment ?? provider).disabled !== null;
  return (
    <>
      <Button
        busy={change.isPending}
        aria-label={`${isDisabled ? 'Enable' : 'Disable'} ${what}`}
        onClick={() => (isDisabled ? change.mutate({ disabled: false }) : setOpen(true))}
      >
        {isDisabled ? 'Enable' : 'Disable'}
      </Button>
      {change.isError && !isOpen && <FaultNote error={change.error} />}
      {isOpen && (
        <FormDialog
          title={`Disable ${what}`}
          action="Disable"
          fields={[{ name: 'note', label: 'Note', hint: 'Why, for others who look at it. May be empty.' }]}
          initial={{ note: '' }}
          submit={({ note }) =>
            change.mutateAsync({ disabled: true, ...(note.trim() === '' ? {} : { note: note.trim() }) })
          }
          onClose={() => setOpen(false)}
        >
          <p>
            It gets no new requests, on all gateways of the database, until it is enabled. Requests under way
            end. Other deployments and fallbacks answer in its place; without one, requests are refused.
          </p>
        </FormDialog>
      )}
    </>
  );
}
