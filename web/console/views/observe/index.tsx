import { Link, Route, Switch, useLocation } from 'wouter';
import { GatedFault } from '../../parts/gated.tsx';
import { Empty, Loading, Page, Panel, Tabs } from '../../parts/index.tsx';
import { useSurfaces } from './asking.ts';
import css from './observe.module.css';
import { QueryView } from './query-view.tsx';
import { QuestionView } from './question-view.tsx';
import { SurfaceList, SurfaceView } from './surface-view.tsx';
import type { Question } from './types.ts';

const tabs = [
  { name: 'query', title: 'Query', path: '/console/observe' },
  { name: 'questions', title: 'Questions', path: '/console/observe/questions' },
  { name: 'surfaces', title: 'Surfaces', path: '/console/observe/surfaces' },
] as const;

/** Read-only queries over the recorded activity of the host. */
export default function Observe() {
  const [location, navigate] = useLocation();
  const all = useSurfaces();
  const chosen = tabs.findLast(({ path }) => location.startsWith(path))?.name ?? 'query';
  return (
    <Page
      title="Observe"
      lead="Query the recorded activity of the host. Queries are read-only, and no data leaves the host."
    >
      {all.isPending && <Loading what="the surfaces" />}
      {all.isError && (
        <Panel>
          <GatedFault what="the recorded activity" error={all.error} retry={() => void all.refetch()} />
        </Panel>
      )}
      {all.data && (
        <Tabs
          label="Observe"
          tabs={tabs}
          chosen={chosen}
          choose={(name) => navigate(tabs.find((tab) => tab.name === name)?.path ?? '')}
        >
          <div className={css['tab']}>
            <Switch>
              <Route path="/console/observe/questions/:name">
                {({ name }) => <Asked key={name} name={name} questions={all.data.questions} />}
              </Route>
              <Route path="/console/observe/questions">
                <QuestionList questions={all.data.questions} />
              </Route>
              <Route path="/console/observe/surfaces/:name">
                {({ name }) => <SurfaceView name={name} />}
              </Route>
              <Route path="/console/observe/surfaces">
                <SurfaceList surfaces={all.data.surfaces} />
              </Route>
              <Route>
                <QueryView surfaces={all.data.surfaces} />
              </Route>
            </Switch>
          </div>
        </Tabs>
      )}
    </Page>
  );
}

function Asked({ name, questions }: { name: string; questions: readonly Question[] }) {
  const question = questions.find((one) => one.name === name);
  return (
    <>
      <p>
        <Link href="/console/observe/questions">All questions</Link>
      </p>
      {question ? <QuestionView question={question} /> : <Empty title={`There is no question ${name}.`} />}
    </>
  );
}

const QuestionList = ({ questions }: { questions: readonly Question[] }) => (
  <Panel title="Predefined questions">
    <ul className={css['questions']}>
      {questions.map(({ name, description }) => (
        <li key={name}>
          <Link href={`/console/observe/questions/${name}`}>{name.replaceAll('_', ' ')}</Link>
          <span>{description}</span>
        </li>
      ))}
    </ul>
  </Panel>
);
