import { Link } from 'wouter';
import { useWaiting } from '../../agents/waiting.ts';
import { FaultNote, Loading, Panel } from '../../../ui/index.tsx';
import css from './home.module.css';

/** What waits for a person: changes of agents, and runs at gates. */
export function WaitingPanel() {
  const waiting = useWaiting();
  const { data } = waiting;
  return (
    <Panel title="Waiting for you">
      {waiting.isPending && <Loading what="what waits" />}
      {waiting.isError && <FaultNote error={waiting.error} retry={() => void waiting.refetch()} />}
      {data && (
        <ul className={css['counts']}>
          <Count count={data.pending} href="/console/pending" one="pending change" many="pending changes" />
          <Count count={data.runs} href="/console/runs" one="run at a gate" many="runs at gates" />
        </ul>
      )}
    </Panel>
  );
}

const Count = ({ count, href, one, many }: { count: number; href: string; one: string; many: string }) => (
  <li data-some={count > 0}>
    <Link href={href}>
      <strong>{count}</strong> {count === 1 ? one : many}
    </Link>
  </li>
);
