import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { CodeBlock, CopyValue } from '../../../ui/copy.tsx';
import { Facts, Panel, Tabs } from '../../../ui/index.tsx';
import { api, unwrap } from '../../../api/client.ts';
import css from './home.module.css';
import type { Info } from './info.ts';
import { keyVariable, makeSnippets, type Snippet } from './snippets.ts';

/** Address of the host and programs that use it, with the resident model's id and the rule for the key. */
export function ConnectPanel({ model }: { model: Info['model'] | undefined }) {
  const [name, setName] = useState<Snippet['name']>('curl');
  const needsKey = useNeedsKey().data;
  const kind = useKind(model?.id).data;
  const { origin } = location;
  const snippets =
    model && needsKey !== undefined && kind
      ? makeSnippets({ origin, model: model.id, kind, needsKey })
      : undefined;
  const shown = snippets?.find((snippet) => snippet.name === name) ?? snippets?.[0];
  return (
    <Panel title="Connect">
      <Facts
        facts={[
          ['Base URL', <CopyValue key="url" value={`${origin}/v1`} label="the base URL" />],
          ...(model
            ? ([['Model', <CopyValue key="model" value={model.id} label="the model's id" />]] as const)
            : []),
          ...(needsKey === undefined ? [] : ([['Key', <KeyRule key="key" needsKey={needsKey} />]] as const)),
        ]}
      />
      {snippets && shown && (
        <Tabs label="Programs" tabs={snippets} selected={shown.name} onSelect={setName}>
          <div className={css['program']}>
            <CodeBlock code={shown.code} label={shown.label} />
          </div>
        </Tabs>
      )}
      {model === null && <p>Programs for this host are shown here when a model is loaded.</p>}
      <p>
        <small>
          Clients of OpenAI use the base URL. Clients of Anthropic and Ollama use <code>{origin}</code>.{' '}
          <a href="/docs">API reference</a>
        </small>
      </p>
    </Panel>
  );
}

const KeyRule = ({ needsKey }: { needsKey: boolean }) =>
  needsKey ? (
    <>
      Required: this host is reachable from other machines. The bearer token is in the file{' '}
      <code>bearer.token</code> of the host's data directory; the programs below read it from{' '}
      <code>{keyVariable}</code>.
    </>
  ) : (
    <>Not required: only this machine reaches the host. Libraries that insist on a key can send any text.</>
  );

/** Whether requests need the bearer token: the host tells by its answer to a request without one. */
const useNeedsKey = () =>
  useQuery({
    queryKey: ['host', 'needs-key'],
    queryFn: async () => {
      const response = await fetch('/v1/models', { credentials: 'omit' });
      // A body that is not read keeps its connection: browsers do not store it.
      await response.text();
      return response.status === 401;
    },
    staleTime: Number.POSITIVE_INFINITY,
  });

/** What the resident model is for. */
const useKind = (id: string | undefined) =>
  useQuery({
    queryKey: ['v1', 'models', id],
    enabled: id !== undefined,
    queryFn: async () => {
      const { data } = await unwrap(api.GET('/v1/models'));
      const kind = data.find((entry) => entry.id === id)?.kind;
      // A later host may have other kinds.
      return kind === 'embed' || kind === 'rerank' ? kind : 'generate';
    },
  });
