import { Route, Switch, useLocation } from 'wouter';
import { Page, Tabs } from '../../../ui/index.tsx';
import { Chain } from './chain.tsx';
import { Detail } from './detail.tsx';
import { Feed } from './feed.tsx';
import { Served } from './served.tsx';
import css from './sessions.module.css';

const tabs = [
  { name: 'feed', title: 'Feed', path: '/console/sessions' },
  { name: 'receipts', title: 'Receipts', path: '/console/sessions/receipts' },
  { name: 'served', title: 'Served', path: '/console/sessions/served' },
] as const;

/** Running and ended sessions, and their receipts. */
export default function Sessions() {
  const [location, navigate] = useLocation();
  const chosen = tabs.find(({ path }) => path === location);
  if (!chosen)
    return (
      <Route path="/console/sessions/:id">
        {({ id }) => <Detail key={id} id={decodeURIComponent(id)} />}
      </Route>
    );
  return (
    <Page title="Sessions" lead="Tasks, runs and external sessions, with their signed receipts.">
      <Tabs
        label="Sessions"
        tabs={tabs}
        selected={chosen.name}
        onSelect={(name) => navigate(tabs.find((tab) => tab.name === name)?.path ?? '')}
      >
        <div className={css['tab']}>
          <Switch>
            <Route path={tabs[1].path} component={Chain} />
            <Route path={tabs[2].path} component={Served} />
            <Route component={Feed} />
          </Switch>
        </div>
      </Tabs>
    </Page>
  );
}
