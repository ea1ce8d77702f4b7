import { Link } from 'wouter';
import { agentsCss as css } from '../../agents/parts.tsx';
import { Badge, Empty, FaultNote, Loading, Panel, Table } from '../../../ui/index.tsx';
import { useAgents } from './use-agents.ts';

/** The stored agents and the built-in one. */
export function AgentList() {
  const agents = useAgents();
  return (
    <Panel title="Stored agents" tools={<Link href="/console/tasks/new-agent">New agent</Link>}>
      {agents.isPending && <Loading what="the agents" />}
      {agents.isError && <FaultNote error={agents.error} retry={() => void agents.refetch()} />}
      {agents.data && (
        <Table
          caption="Agents"
          rows={agents.data}
          keyOf={({ name }) => name}
          columns={[
            {
              key: 'name',
              head: 'Agent',
              cell: ({ name }) => <Link href={`/console/tasks/agents/${name}`}>{name}</Link>,
            },
            {
              key: 'what',
              head: 'Description',
              cell: ({ description }) => <span className={css['wide']}>{description}</span>,
            },
            { key: 'model', head: 'Model', cell: ({ model }) => model },
            {
              key: 'tools',
              head: 'Tools',
              cell: ({ grants }) => (
                <span className={css['names']}>
                  {grants.tools.length === 0 && <span className={css['quiet']}>none</span>}
                  {grants.tools.map((tool) => (
                    <code key={tool}>{tool}</code>
                  ))}
                </span>
              ),
            },
            {
              key: 'unasked',
              head: 'Applied without approval',
              cell: ({ grants }) =>
                grants.auto_approve.length > 0 && <Badge tone="warn">{grants.auto_approve.join(', ')}</Badge>,
            },
            {
              key: 'use',
              head: 'Use',
              cell: ({ name }) => <Link href={`/console/tasks?agent=${name}`}>Start a task</Link>,
            },
          ]}
        />
      )}
      {agents.data?.length === 1 && (
        <Empty title="You have no agents yet.">
          Create one to grant it tools and folders. The agent <code>default</code> answers without tools.
        </Empty>
      )}
    </Panel>
  );
}
