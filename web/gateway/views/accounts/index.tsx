import { Route, Switch } from 'wouter';
import { AccountList } from './account-list.tsx';
import { AccountPage } from './account-page.tsx';

export function Accounts() {
  return (
    <Switch>
      <Route path="/accounts/:id">{({ id }) => <AccountPage id={decodeURIComponent(id)} />}</Route>
      <Route>
        <AccountList />
      </Route>
    </Switch>
  );
}
