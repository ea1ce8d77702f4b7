import { type UseQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { Empty, Loading } from '../../../../ui/index.tsx';
import { ProtectedRouteFault } from '../../../shell/protected-route.tsx';

/** The result of a trace's query, or why there is none. */
export function TracePage<Trace>(props: {
  query: UseQueryResult<Trace | null>;
  id: string;
  children: (trace: NonNullable<Trace>) => ReactNode;
}) {
  const { query, id, children } = props;
  return (
    <>
      <p>
        <Link href="/console/observe">Back to the overview</Link>
      </p>
      {query.isPending && <Loading what="the trace" />}
      {query.isError && (
        <ProtectedRouteFault what="the trace" error={query.error} retry={() => void query.refetch()} />
      )}
      {query.isSuccess && query.data === null && (
        <Empty title={`Nothing is recorded of ${id}.`}>
          A request is listed a second after it ended. Choose one from the overview.
        </Empty>
      )}
      {query.data !== undefined && query.data !== null && children(query.data)}
    </>
  );
}
