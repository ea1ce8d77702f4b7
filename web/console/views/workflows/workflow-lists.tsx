import { Link } from 'wouter';
import { RelativeTime, agentsCss as css, consolePath } from '../../agents/parts.tsx';
import { formatTime } from '../../../ui/format.ts';
import { Badge, Empty, FaultNote, Loading, Panel, Table } from '../../../ui/index.tsx';
import { ForkButton } from './fork-button.tsx';
import { useBuiltins, useWorkflows } from './use-workflows.ts';

const Enabled = ({ enabled }: { enabled: boolean }) =>
  enabled ? <Badge tone="good">enabled</Badge> : <Badge>not enabled</Badge>;

export function WorkflowLists() {
  const own = useWorkflows();
  const builtins = useBuiltins();
  return (
    <>
      <Panel title="Your workflows" tools={<Link href="/console/workflows?new=yes">New workflow</Link>}>
        {own.isPending && <Loading what="the workflows" />}
        {own.isError && <FaultNote error={own.error} retry={() => void own.refetch()} />}
        {own.data?.length === 0 && (
          <Empty title="You have no workflows yet.">Write one, or fork a built-in workflow below.</Empty>
        )}
        {own.data && own.data.length > 0 && (
          <Table
            caption="Your workflows, by name"
            rows={own.data}
            keyOf={({ name }) => name}
            columns={[
              {
                key: 'name',
                head: 'Workflow',
                cell: ({ name }) => (
                  <Link href={consolePath.workflow(name)} className={css['whole'] ?? ''}>
                    {name}
                  </Link>
                ),
              },
              {
                key: 'what',
                head: 'Description',
                cell: ({ description }) => <span className={css['wide']}>{description}</span>,
              },
              { key: 'may', head: 'Enabled', cell: (one) => <Enabled enabled={one.enabled} /> },
              { key: 'version', head: 'Version', cell: ({ version }) => version },
              { key: 'origin', head: 'Origin', cell: ({ origin }) => origin },
              { key: 'at', head: 'Changed', cell: ({ updated_at: at }) => <RelativeTime time={at} /> },
            ]}
          />
        )}
      </Panel>
      <Panel title="Built in">
        <p className={css['quiet']}>Built-in workflows are read-only. Fork one to edit your own copy.</p>
        {builtins.isPending && <Loading what="the built-in workflows" />}
        {builtins.isError && <FaultNote error={builtins.error} retry={() => void builtins.refetch()} />}
        {builtins.data && (
          <Table
            caption="Built-in workflows"
            rows={builtins.data}
            keyOf={({ name }) => name}
            columns={[
              {
                key: 'name',
                head: 'Workflow',
                cell: ({ name }) => (
                  <Link href={`/console/workflows/builtins/${name}`} className={css['whole'] ?? ''}>
                    {name}
                  </Link>
                ),
              },
              {
                key: 'what',
                head: 'Description',
                cell: ({ description }) => <span className={css['wide']}>{description}</span>,
              },
              { key: 'may', head: 'Enabled', cell: (one) => <Enabled enabled={one.enabled} /> },
              {
                key: 'when',
                head: 'Starts',
                cell: ({ schedule }) =>
                  schedule ? (
                    <span title={schedule.next === undefined ? '' : `next: ${formatTime(schedule.next)}`}>
                      <code>{schedule.cron}</code> {schedule.tz}
                    </span>
                  ) : (
                    <span className={css['whole']}>manually</span>
                  ),
              },
              { key: 'version', head: 'Version', cell: ({ version }) => version },
              { key: 'fork', head: 'Copy', cell: ({ name }) => <ForkButton name={name} /> },
            ]}
          />
        )}
      </Panel>
    </>
  );
}
