import { Route, Switch, useLocation } from 'wouter';
import { Page, Tabs } from '../../../ui/index.tsx';
import { Grants } from './grants.tsx';
import { Racks } from './racks.tsx';
import css from './recorder.module.css';
import { Review } from './review.tsx';

const tabs = [
  { name: 'racks', title: 'Racks', path: '/console/recorder' },
  { name: 'grants', title: 'Grants', path: '/console/recorder/grants' },
  { name: 'review', title: 'Review', path: '/console/recorder/review' },
] as const;

/** What conversation content may be stored, for how long, and who accessed it. */
export default function Recorder() {
  const [location, navigate] = useLocation();
  const chosen = tabs.findLast(({ path }) => location.startsWith(path))?.name ?? 'racks';
  return (
    <Page
      title="Recorder"
      lead="The host records metrics of its work. It stores conversation content only in racks that you arm here."
    >
      <Tabs
        label="Recorder"
        tabs={tabs}
        selected={chosen}
        onSelect={(name) => navigate(tabs.find((tab) => tab.name === name)?.path ?? '')}
      >
        <div className={css['tab']}>
          <Switch>
            <Route path={tabs[1].path} component={Grants} />
            <Route path={tabs[2].path} component={Review} />
            <Route component={Racks} />
          </Switch>
        </div>
      </Tabs>
    </Page>
  );
}
