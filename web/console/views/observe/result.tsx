import type { ReactNode } from 'react';
import { asFault } from '../../../api/fault.ts';
import { ProtectedRouteFault } from '../../shell/protected-route.tsx';
import { Button, Empty, Loading, Panel, Row, Tabs } from '../../../ui/index.tsx';
import { useUrlState } from '../../../ui/url-state.ts';
import type { ResultQuery } from './queries.ts';
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
  result: ResultQuery;
  /** Additional actions for the result. */
  tools?: (envelope: Envelope) => ReactNode;
  /** Shown when the query took too long or returned too much (422). */
  tooLargeHint?: ReactNode;
}) {
  const { result, tools, tooLargeHint } = props;
  const { data, error } = result;
  const [view, setView] = useUrlState('as', 'table');
  const first = data?.pages[0];
  const last = data?.pages.at(-1);
  if (error && !result.isFetchNextPageError)
    return (
      <>
        <ProtectedRouteFault what="the result" error={error} retry={() => void result.refetch()} />
        {asFault(error).status === 422 && tooLargeHint}
      </>
    );
  if (!first || !last) return result.isFetching ? <Loading what="the result" /> : null;
  const rows = data.pages.flatMap((page) => page.rows);
  const chosen = tabs.find(({ name }) => name === view)?.name ?? 'table';
  return (
    <Panel
      title="Result"
      tools={
        <>
          {tools?.(last)}
          <Button busy={result.isFetching} onClick={() => void result.refetch()}>
            Run again
          </Button>
        </>
      }
    >
      <Coverage envelope={last} shown={rows.length} />
      {rows.length === 0 ? (
        <Empty title="No matching rows.">Widen the time range or remove a condition.</Empty>
      ) : (
        <Tabs label="Result view" tabs={tabs} selected={chosen} onSelect={setView}>
          <div className={css['shape']}>
            {chosen === 'table' ? (
              <ResultTable surface={first.surface} columns={first.columns} rows={rows} />
            ) : (
              <ResultChart query={first.query as Query} columns={first.columns} rows={rows} />
            )}
          </div>
        </Tabs>
      )}
      {result.isFetchNextPageError && (
        <ProtectedRouteFault what="the next page" error={error} retry={() => void result.fetchNextPage()} />
      )}
      {result.hasNextPage && (
        <Row>
          <Button busy={result.isFetchingNextPage} onClick={() => void result.fetchNextPage()}>
            Load the next page
          </Button>
        </Row>
      )}
    </Panel>
  );
}
