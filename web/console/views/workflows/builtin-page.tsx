import { Link } from 'wouter';
import { agentsCss as css } from '../../agents/parts.tsx';
import { CodeEditor } from '../../parts/code-editor.tsx';
import { Empty, FaultNote, Loading, Page, Panel, Table } from '../../parts/index.tsx';
import { ConsentFacts } from './consent-facts.tsx';
import { ForkButton } from './fork-button.tsx';
import { RunPanel } from './run-panel.tsx';
import { useBuiltins, useWorkflows } from './use-workflows.ts';

/** One that comes with the host, for reading, running and forking. */
export function BuiltinPage({ name }: { name: string }) {
  const builtins = useBuiltins();
  const own = useWorkflows();
  const builtin = builtins.data?.find((one) => one.name === name);
  const isHidden = own.data?.some((one) => one.name === name) === true;
  return (
    <Page
      title={`Built-in workflow ${name}`}
      lead={builtin?.description}
      tools={
        <>
          <Link href="/console/workflows">All workflows</Link>
          {builtin && <ForkButton name={name} />}
        </>
      }
    >
      {builtins.isPending && <Loading what="the workflow" />}
      {builtins.isError && <FaultNote error={builtins.error} retry={() => void builtins.refetch()} />}
      {builtins.data && !builtin && (
        <Empty title={`No built-in workflow is called ${name}.`}>
          <Link href="/console/workflows">Look at all workflows</Link>
        </Empty>
      )}
      {builtin && (
        <div className={css['columns']}>
          <div className={css['stack']}>
            <Panel title="Steps">
              <Table
                caption="Steps of the workflow"
                rows={builtin.steps}
                keyOf={({ id }) => id}
                columns={[
                  { key: 'id', head: 'Step', cell: ({ id }) => id },
                  { key: 'agent', head: 'Agent', cell: ({ agent }) => agent ?? 'only waits' },
                  { key: 'needs', head: 'After', cell: ({ needs }) => needs.join(', ') },
                  { key: 'gate', head: 'Gate', cell: ({ gate }) => gate },
                  { key: 'when', head: 'Only when', cell: ({ when }) => when && <code>{when}</code> },
                ]}
              />
            </Panel>
            <Panel title="Source">
              <CodeEditor
                label={`Source of ${name}, TOML`}
                language="toml"
                value={builtin.source}
                lines={40}
              />
            </Panel>
          </div>
          <div className={css['stack']}>
            {isHidden ? (
              <Panel title="Run it">
                <p>
                  A workflow of your own has this name, and is run instead:{' '}
                  <Link href={`/console/workflows/${name}`}>go there</Link>.
                </p>
              </Panel>
            ) : (
              <RunPanel name={name} source={builtin.source} enabled={builtin.enabled} />
            )}
            <Panel title="What it may do">
              <ConsentFacts consent={builtin.consent} />
            </Panel>
          </div>
        </div>
      )}
    </Page>
  );
}
