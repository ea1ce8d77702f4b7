import { Link } from 'wouter';
import { agentsCss as css } from '../../agents/parts.tsx';
import { CodeEditor } from '../../../ui/code-editor.tsx';
import { Empty, FaultNote, Loading, Page, Panel, Table } from '../../../ui/index.tsx';
import { ConsentFacts } from './consent-facts.tsx';
import { ForkButton } from './fork-button.tsx';
import { RunPanel } from './run-panel.tsx';
import { useBuiltins, useWorkflows } from './use-workflows.ts';

/** A built-in workflow, which can be read, run and forked. */
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
          <Link href="/console/workflows">View all workflows</Link>
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
                  { key: 'agent', head: 'Agent', cell: ({ agent }) => agent ?? 'none (gate only)' },
                  { key: 'needs', head: 'Needs', cell: ({ needs }) => needs.join(', ') },
                  { key: 'gate', head: 'Gate', cell: ({ gate }) => gate },
                  { key: 'when', head: 'Condition', cell: ({ when }) => when && <code>{when}</code> },
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
              <Panel title="Run">
                <p>
                  Your own workflow with this name runs instead:{' '}
                  <Link href={`/console/workflows/${name}`}>open it</Link>.
                </p>
              </Panel>
            ) : (
              <RunPanel name={name} source={builtin.source} enabled={builtin.enabled} />
            )}
            <Panel title="Permissions">
              <ConsentFacts consent={builtin.consent} />
            </Panel>
          </div>
        </div>
      )}
    </Page>
  );
}
