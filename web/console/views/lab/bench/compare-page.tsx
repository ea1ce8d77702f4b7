import { type ReactNode, useMemo } from 'react';
import { Link } from 'wouter';
import { formatTime } from '../../../../ui/format.ts';
import { Badge, Empty, FaultNote, Loading, Panel, Table } from '../../../../ui/index.tsx';
import { useUrlState } from '../../../../ui/url-state.ts';
import { formatShare } from '../graph/graph-model.ts';
import css from './bench.module.css';
import { benchPath, type BenchRecord, comparePath, useBench } from './queries.ts';
import { componentRows, differs, isLength, obstaclesOf, settingsOf, speedRows } from './run-comparison.ts';
import { VerdictBadge } from './verdict-badge.tsx';
import { formatEstimate } from './verdict-text.ts';

/** `/console/lab/bench/compare?a=ID&b=ID`: two finished benches. */
export function ComparePage() {
  const [a] = useUrlState('a');
  const [b] = useUrlState('b');
  const [first, second] = [useBench(a), useBench(b)];
  const back = <Link href="/console/lab/bench">All benches</Link>;
  if (a === '' || b === '')
    return (
      <Empty title="Two benches are needed.">
        Select two in the history of {back}, then choose <strong>Compare the two</strong>.
      </Empty>
    );
  for (const query of [first, second])
    if (query.error) return <FaultNote error={query.error} retry={() => void query.refetch()} />;
  if (!first.data || !second.data) return <Loading what="the two benches" />;
  return <Comparison before={first.data} after={second.data} tools={back} />;
}

function Comparison({ before, after, tools }: { before: BenchRecord; after: BenchRecord; tools: ReactNode }) {
  const settings = useMemo(() => settingsOf(before, after), [before, after]);
  const speeds = useMemo(() => speedRows(before, after), [before, after]);
  const components = useMemo(() => componentRows(before, after), [before, after]);
  const obstacles = obstaclesOf(settings);
  return (
    <>
      <Panel
        title="Two benches compared"
        tools={
          <>
            <Link href={comparePath(after.id, before.id)}>Exchange A and B</Link>
            {tools}
          </>
        }
      >
        <p>
          A: <Link href={benchPath(before.id)}>bench of {formatTime(before.at)}</Link>. B:{' '}
          <Link href={benchPath(after.id)}>bench of {formatTime(after.at)}</Link>. Speeds are relative to the
          built-in kernels of the same bench, because a machine is not equally fast at two times.
        </p>
        {obstacles.length > 0 && (
          <div className={css['warnings']} role="status">
            <strong>
              {obstacles.every(isLength)
                ? 'Only measurements that both have are compared. These settings differ:'
                : 'The two are not comparable. These differ:'}
            </strong>
            <ul>
              {obstacles.map(({ name, before: left, after: right }) => (
                <li key={name}>
                  {name}: {left} / {right}
                </li>
              ))}
            </ul>
          </div>
        )}
        <Table
          caption="Speeds of A and B"
          rows={speeds}
          keyOf={({ name }) => name}
          columns={[
            { key: 'name', head: 'Measurement', cell: ({ name }) => name },
            { key: 'a', head: 'A vs. built-ins', number: true, cell: (row) => estimateText(row.before) },
            { key: 'b', head: 'B vs. built-ins', number: true, cell: (row) => estimateText(row.after) },
            {
              key: 'change',
              head: 'B vs. A (95 % interval)',
              number: true,
              cell: ({ change, before: left, after: right }) =>
                change ? formatEstimate(change) : left && right ? 'not comparable' : 'only in one',
            },
            {
              key: 'verdict',
              head: 'B compared with A',
              cell: ({ change }) => change && <VerdictBadge verdict={change.verdict} />,
            },
          ]}
        />
        <p className={css['note']}>
          The intervals of B compared with A are from the raw times of the rounds of both benches. A verdict
          of faster or slower needs an interval outside the larger noise of the two.
        </p>
      </Panel>
      <Panel title="Components">
        <Table
          caption="GPU time of a decoded token by component, largest difference first"
          rows={components}
          keyOf={({ slot }) => slot}
          columns={[
            { key: 'slot', head: 'Component', cell: ({ slot }) => <code>{slot}</code> },
            { key: 'ka', head: 'Kernel in A', cell: ({ kernels }) => kernels[0] },
            { key: 'kb', head: 'Kernel in B', cell: ({ kernels }) => kernels[1] },
            { key: 'a', head: 'A', number: true, cell: (row) => shareText(row.before) },
            { key: 'b', head: 'B', number: true, cell: (row) => shareText(row.after) },
            {
              key: 'ratio',
              head: 'B / A',
              number: true,
              cell: ({ before: left, after: right }) =>
                left === undefined || right === undefined || left === 0 || obstacles.length > 0
                  ? ''
                  : (right / left).toFixed(2),
            },
          ]}
        />
        <p className={css['note']}>
          Percent of the GPU time of a decoded token with the built-in kernels of the same bench. The times
          are from traces without raw samples, so their ratio has no interval.
        </p>
      </Panel>
      <Panel title="Settings">
        <Table
          caption="Settings of A and B"
          rows={settings}
          keyOf={({ name }) => name}
          isSelected={differs}
          columns={[
            { key: 'name', head: 'Setting', cell: ({ name }) => name },
            { key: 'a', head: 'A', cell: (one) => <span className={css['value']}>{one.before}</span> },
            { key: 'b', head: 'B', cell: (one) => <span className={css['value']}>{one.after}</span> },
            {
              key: 'differs',
              head: 'Difference',
              cell: (one) =>
                differs(one) ? <Badge tone={one.isDecisive ? 'warn' : undefined}>differs</Badge> : 'same',
            },
          ]}
        />
      </Panel>
    </>
  );
}

const estimateText = (estimate: Parameters<typeof formatEstimate>[0] | undefined): string =>
  estimate ? formatEstimate(estimate) : '';
const shareText = (share: number | undefined): string => (share === undefined ? '' : formatShare(share));
