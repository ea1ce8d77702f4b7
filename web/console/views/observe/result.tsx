import type { ReactNode } from 'react';
import { asFault } from '../../api/fault.ts';
import { GatedFault } from '../../parts/gated.tsx';
import { Button, Empty, Loading, Panel, Row, Tabs } from '../../parts/index.tsx';
import { useUrlState } from '../../parts/url-state.ts';
import type { Answered } from './asking.ts';
import { Coverage } from './coverage.tsx';
import css from './observe.module.css';
import { ResultChart } from './result-chart.tsx';
import { ResultTable } from './result-table.tsx';
import type { Envelope, Query } from './types.ts';

const tabs = [
  { name: 'table', title: 'Table' },
  { name: 'chart', title: 'Chart' },
] as const;

/** Result of a query or question. */
export function Result(props: {
  answered: Answered;
  /** Additional actions for the result. */
  tools?: (envelope: Envelope) => ReactNode;
  /** Shown when the query took too long or returned too much (422). */
  whenTooMuch?: ReactNode;
}) {
  const { answered, tools, whenTooMuch } = props;
  const { data, error } = answered;
  const [shape, setShape] = useUrlState('as', 'table');
  const first = data?.pages[0];
  const last = data?.pages.at(-1);
  if (error && !answered.isFetchNextPageError)
    return (
      <>
        <GatedFault what="the result" error={error} retry={() => void answered.refetch()} />
        {asFault(error).status === 422 && whenTooMuch}
      </>
    );
  if (!first || !last) return answered.isFetching ? <Loading what="the result" /> : null;
  const rows = data.pages.flatMap((page) => page.rows);
  const chosen = tabs.find(({ name }) => name === shape)?.name ?? 'table';
  return (
    <Panel
      title="Result"
      tools={
        <>
          {tools?.(last)}
          <Button busy={answered.isFetching} onClick={() => void answered.refetch()}>
            Run again
          </Button>
        </>
      }
    >
      <Coverage envelope={last} shown={rows.length} />
      {rows.length === 0 ? (
        <Empty title="No matching rows.">Widen the time range or remove a condition.</Empty>
      ) : (
        <Tabs label="Result view" tabs={tabs} chosen={chosen} choose={setShape}>
          <div className={css['shape']}>
            {chosen === 'table' ? (
              <ResultTable surface={first.surface} columns={first.columns} rows={rows} />
            ) : (
              <ResultChart query={first.query as Query} columns={first.columns} rows={rows} />
            )}
          </div>
        </Tabs>
      )}
      {answered.isFetchNextPageError && (
        <GatedFault what="the next page" error={error} retry={() => void answered.fetchNextPage()} />
      )}
      {answered.hasNextPage && (
        <Row>
          <Button busy={answered.isFetchingNextPage} onClick={() => void answered.fetchNextPage()}>
            Load the next page
          </Button>
        </Row>
      )}
    </Panel>
  );
}
