import { formatNumber, formatTime } from '../../../ui/format.ts';
import { ProtectedRouteFault } from '../../shell/protected-route.tsx';
import { Badge, Button, Empty, Field, Loading, Panel, Table } from '../../../ui/index.tsx';
import { useUrlState } from '../../../ui/url-state.ts';
import { useReview } from './recorder.ts';
import css from './recorder.module.css';
import { TombstoneFacts } from './tombstone-facts.tsx';
import { tombstonesOf } from './tombstones.ts';
import type { Entry } from './types.ts';

const rackNames = ['completions', 'agent', 'workflows', 'gateway', 'external'];

/** Review log: every access and policy change, newest first, and the tombstones of purged histories. */
export function Review() {
  const [rack, setRack] = useUrlState('rack');
  const [action, setAction] = useUrlState('act');
  const review = useReview(rack);
  if (review.isError)
    return <ProtectedRouteFault what="the review" error={review.error} retry={() => void review.refetch()} />;
  const entries = review.data?.entries ?? [];
  const actions = [...new Set(entries.map((entry) => entry.act))].sort();
  const chosen = entries.filter((entry) => action === '' || entry.act === action);
  const tombstones = tombstonesOf(entries);
  return (
    <>
      <Panel
        title="Review"
        tools={
          <Button busy={review.isFetching} onClick={() => void review.refetch()}>
            Refresh
          </Button>
        }
      >
        <div className={css['filters']}>
          <Field label="Rack">
            {(control) => (
              <select {...control} value={rack} onChange={({ target }) => setRack(target.value)}>
                <option value="">any</option>
                {rackNames.map((name) => (
                  <option key={name}>{name}</option>
                ))}
              </select>
            )}
          </Field>
          <Field label="Action">
            {(control) => (
              <select {...control} value={action} onChange={({ target }) => setAction(target.value)}>
                <option value="">any</option>
                {[...new Set([...actions, ...(action === '' ? [] : [action])])].map((name) => (
                  <option key={name} value={name}>
                    {name.replaceAll('_', ' ')}
                  </option>
                ))}
              </select>
            )}
          </Field>
        </div>
        {review.isPending && <Loading what="the review" />}
        {review.data && !review.data.isComplete && (
          <p role="status">
            <Badge tone="warn">incomplete</Badge> These are the oldest {formatNumber(entries.length)} entries;
            choose a rack, or read the rest with <code>node dist/host.js recorder review</code>.
          </p>
        )}
        {review.data && chosen.length === 0 && (
          <Empty title="The review log is empty.">
            Every access to content and every change of a policy is listed here.
          </Empty>
        )}
        {chosen.length > 0 && <Entries entries={chosen} />}
      </Panel>
      <Panel title="Tombstones">
        {tombstones.length === 0 ? (
          <Empty title="No history was purged.">A purge of a rack leaves its tombstone here.</Empty>
        ) : (
          <ul className={css['tombstones']}>
            {tombstones.map((tombstone) => (
              <li key={tombstone.id}>
                <h3>{tombstone.rack}</h3>
                <TombstoneFacts tombstone={tombstone} />
              </li>
            ))}
          </ul>
        )}
      </Panel>
    </>
  );
}

const actionTones: Partial<Record<Entry['act'], 'good' | 'warn' | 'bad'>> = {
  arm: 'warn',
  disarm: 'good',
  refused: 'bad',
  purge: 'bad',
};

const Entries = ({ entries }: { entries: readonly Entry[] }) => (
  <Table
    caption="Review log, newest first"
    rows={entries}
    keyOf={({ seq }) => String(seq)}
    filter={{
      what: 'entries',
      textOf: ({ by, act, rack, details }) => `${by} ${act} ${rack ?? ''} ${JSON.stringify(details)}`,
    }}
    columns={[
      { key: 'seq', head: 'No.', number: true, cell: ({ seq }) => seq },
      { key: 'at', head: 'When', cell: ({ at }) => <span className={css['time']}>{formatTime(at)}</span> },
      { key: 'by', head: 'By', cell: ({ by }) => by },
      {
        key: 'act',
        head: 'Action',
        cell: ({ act: action }) => <Badge tone={actionTones[action]}>{action.replaceAll('_', ' ')}</Badge>,
      },
      { key: 'rack', head: 'Rack', cell: ({ rack }) => rack ?? '' },
      {
        key: 'details',
        head: 'Details',
        cell: ({ details }) => <code className={css['details']}>{JSON.stringify(details)}</code>,
      },
    ]}
  />
);
