import { Route, Switch } from 'wouter';
import { KeyList } from './key-list.tsx';
import { KeyPage } from './key-page.tsx';

export function Keys() {
  return (
    <Switch>
      <Route path="/keys/:id">{({ id }) => <KeyPage id={decodeURIComponent(id)} />}</Route>
      <Route>
        <KeyList />
      </Route>
    </Switch>
  );
}
