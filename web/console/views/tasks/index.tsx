import { Route, Switch } from 'wouter';
import { SubNav } from '../../agents/parts.tsx';
import { Page } from '../../../ui/index.tsx';
import { AgentPage, NewAgent } from './agent-page.tsx';
import { AgentList } from './agent-list.tsx';
import { StartTaskForm } from './start-task.tsx';
import { TaskList } from './task-list.tsx';
import { TaskPage } from './task-page.tsx';
import { ToolList } from './tool-list.tsx';

const links = [
  { href: '/console/tasks', title: 'Tasks' },
  { href: '/console/tasks/agents', title: 'Agents' },
  { href: '/console/tasks/tools', title: 'Tools' },
];

/** Tasks, the agents that work on them, and the tools that agents can be granted. */
export default function View() {
  return (
    <Switch>
      <Route path="/console/tasks/agents/:name">{({ name }) => <AgentPage key={name} name={name} />}</Route>
      <Route path="/console/tasks/new-agent">
        <NewAgent />
      </Route>
      <Route path="/console/tasks/agents">
        <Page
          title="Agents"
          lead="Agents work on tasks. Each has instructions, a model, budgets and permissions."
        >
          <SubNav label="Tasks, agents and tools" links={links} />
          <AgentList />
        </Page>
      </Route>
      <Route path="/console/tasks/tools">
        <Page title="Tools" lead="Tools that agents can be granted, and their availability on this host.">
          <SubNav label="Tasks, agents and tools" links={links} />
          <ToolList />
        </Page>
      </Route>
      <Route path="/console/tasks/:id">{({ id }) => <TaskPage key={id} id={id} />}</Route>
      <Route>
        <Page title="Tasks" lead="A task is a prompt that an agent works on until it has an answer.">
          <SubNav label="Tasks, agents and tools" links={links} />
          <StartTaskForm />
          <TaskList />
        </Page>
      </Route>
    </Switch>
  );
}
