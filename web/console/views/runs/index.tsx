import { Route, Switch } from 'wouter';
import { RunList } from './run-list.tsx';
import { RunPage } from './run-page.tsx';

export default function View() {
  return (
    <Switch>
      <Route path="/console/runs/:id">{({ id }) => <RunPage key={id} id={id} />}</Route>
      <Route>
        <RunList />
      </Route>
    </Switch>
  );
}
