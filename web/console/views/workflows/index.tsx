import { Route, Switch } from 'wouter';
import { Page } from '../../../ui/index.tsx';
import { useUrlState } from '../../../ui/url-state.ts';
import { BuiltinPage } from './builtin-page.tsx';
import { NewWorkflow } from './new-workflow.tsx';
import { WorkflowLists } from './workflow-lists.tsx';
import { WorkflowPage } from './workflow-page.tsx';

/** Workflow routes. `builtins` cannot be the name of a workflow. */
export default function View() {
  const [newParam] = useUrlState('new');
  return (
    <Switch>
      <Route path="/console/workflows/builtins/:name">
        {({ name }) => <BuiltinPage key={name} name={name} />}
      </Route>
      <Route path="/console/workflows/:name">{({ name }) => <WorkflowPage key={name} name={name} />}</Route>
      <Route>
        {newParam === '' ? (
          <Page
            title="Workflows"
            lead="A workflow runs agents in ordered steps. At gates, a run waits for a person, a time or an event."
          >
            <WorkflowLists />
          </Page>
        ) : (
          <NewWorkflow />
        )}
      </Route>
    </Switch>
  );
}
