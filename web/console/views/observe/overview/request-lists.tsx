import { useInfiniteQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { formatNumber, formatTime } from '../../../../ui/format.ts';
import { Button, type Column, Empty, Loading, Panel, Row, Table, Tabs } from '../../../../ui/index.tsx';
import { useUrlState } from '../../../../ui/url-state.ts';
import { protectedQueryOptions, ProtectedRouteFault } from '../../../shell/protected-route.tsx';
import { OutcomeBadge } from '../outcome-badge.tsx';
import { fetchRecords } from '../fetch-records.ts';
import { numberIn, type ResultRecord, textIn } from '../records.ts';
import { gatewayOutcome } from '../trace/spans.ts';
import type { Query } from '../types.ts';
import { whereIn } from './figures.ts';
import css from './overview.module.css';
import { formatOptionalMs } from './percentiles.ts';
import type { TimeRange } from './time-ranges.ts';
import { stateLabel } from '../../../../ui/states.ts';

const lists = [
  { name: 'requests', title: 'Requests' },
  { name: 'errors', title: 'Errors' },
  { name: 'slow', title: 'Slow requests' },
  { name: 'work', title: 'Tasks and runs' },
  { name: 'gateway', title: 'Gateway' },
] as const;
type ListName = (typeof lists)[number]['name'];

/** The requests of a time range, the failed and the slow ones, tasks and runs; each opens its trace. */
export function RequestLists({ range, asOf }: { range: TimeRange; asOf: string | undefined }) {
  const [listName, setList] = useUrlState('list', 'requests');
  const list = lists.find(({ name }) => name === listName)?.name ?? 'requests';
  const rows = useInfiniteQuery({
    // The time of the figures is in the key: both are refreshed together.
    queryKey: ['observe', 'overview-list', range.name, list, asOf],
    enabled: asOf !== undefined,
    ...protectedQueryOptions,
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam: cursor }) =>
      fetchRecords({ ...queryOf(list, range), ...(cursor === undefined ? {} : { cursor }) }),
    getNextPageParam: ({ next }) => next,
  });
  if (asOf === undefined) return null;
  const records = rows.data?.pages.flatMap((page) => page.records);
  return (
    <Panel>
      <Tabs label="Lists" tabs={lists} selected={list} onSelect={setList}>
        <div className={css['list']}>
          {rows.isPending && <Loading what="the list" />}
          {rows.isError && (
            <ProtectedRouteFault what="the list" error={rows.error} retry={() => void rows.refetch()} />
          )}
          {records?.length === 0 && <Empty title={emptyTitles[list]}>Choose a longer time range.</Empty>}
          {records && records.length > 0 && <List list={list} records={records} />}
          {rows.hasNextPage && (
            <Row>
              <Button busy={rows.isFetchingNextPage} onClick={() => void rows.fetchNextPage()}>
                Load older ones
              </Button>
            </Row>
          )}
        </div>
      </Tabs>
    </Panel>
  );
}

const emptyTitles: Readonly<Record<ListName, string>> = {
  requests: 'No requests in this time range.',
  errors: 'No request failed in this time range.',
  slow: 'No requests in this time range.',
  work: 'No task or run started in this time range.',
  gateway: 'No requests at the gateway in this time range.',
};

function queryOf(list: ListName, range: TimeRange): Query {
  const where = whereIn(range);
  if (list === 'work')
    return {
      surface: 'sessions',
      where: [...where, { column: 'kind', op: 'ne', value: 'external' }],
      limit: 1000,
    };
  if (list === 'gateway') return { surface: 'gateway_requests', where, limit: 1000 };
  return {
    surface: 'completions',
    where:
      list === 'errors'
        ? [...where, { column: 'outcome', op: 'in', value: ['refused', 'failed'] }]
        : list === 'slow'
          ? [...where, { column: 'total_ms', op: 'is_null', value: false }]
          : where,
    ...(list === 'slow' ? { order_by: [{ column: 'total_ms', direction: 'desc' }] } : {}),
    limit: 1000,
  };
}

const sumOf = (record: ResultRecord, names: readonly string[]) =>
  names.reduce((sum, name) => sum + (numberIn(record, name) ?? 0), 0);
const promptNames = [
  'prompt_tokens',
  'prompt_tokens_claimed',
  'fresh_tokens',
  'cache_read_tokens',
  'cache_write_tokens',
];
const completionNames = ['completion_tokens', 'completion_tokens_claimed'];

const paths: Readonly<Record<ListName, string>> = {
  requests: 'requests',
  errors: 'requests',
  slow: 'requests',
  work: 'traces',
  gateway: 'gateway',
};

function List({ list, records }: { list: ListName; records: readonly ResultRecord[] }) {
  const isWork = list === 'work';
  const modelOf = (record: ResultRecord) =>
    textIn(record, 'model') || textIn(record, 'effective_model') || textIn(record, 'requested_model');
  const outcomeOf = (record: ResultRecord) =>
    list === 'gateway' ? gatewayOutcome(record) : textIn(record, isWork ? 'state' : 'outcome');
  const details: Column<ResultRecord>[] = isWork
    ? [
        { key: 'kind', head: 'Kind', cell: (record) => textIn(record, 'kind') },
        {
          key: 'title',
          head: 'Agent or workflow',
          cell: (record) => [textIn(record, 'name'), textIn(record, 'title')].filter(Boolean).join(': '),
        },
      ]
    : [
        {
          key: 'first',
          head: 'First token',
          number: true,
          cell: (record) =>
            formatOptionalMs(numberIn(record, list === 'gateway' ? 'first_byte_ms' : 'first_token_ms')),
        },
        { key: 'wire', head: 'Wire', cell: (record) => textIn(record, 'wire') },
        {
          key: 'by',
          head: list === 'gateway' ? 'Key' : 'By',
          cell: (record) => textIn(record, list === 'gateway' ? 'key_label' : 'by'),
        },
      ];
  return (
    <Table
      caption={lists.find(({ name }) => name === list)?.title ?? ''}
      rows={records}
      keyOf={(record) => `${textIn(record, 'id')} ${textIn(record, 'endpoint_id')}`}
      filter={{
        what: 'list',
        textOf: (record) => [...Object.values(record), stateLabel(outcomeOf(record))].join(' '),
      }}
      columns={[
        {
          key: 'at',
          head: 'Time',
          cell: (record) => (
            <Link
              href={`/console/observe/${paths[list]}/${encodeURIComponent(textIn(record, 'id'))}`}
              aria-label={`${formatTime(textIn(record, 'started_at'))}, trace of ${textIn(record, 'id')}`}
            >
              {formatTime(textIn(record, 'started_at'))}
            </Link>
          ),
        },
        { key: 'model', head: 'Model', cell: (record) => modelOf(record) },
        {
          key: 'outcome',
          head: 'Outcome',
          cell: (record) => <OutcomeBadge outcome={outcomeOf(record)} code={textIn(record, 'code')} />,
        },
        {
          key: 'latency',
          head: isWork ? 'Duration' : 'Latency',
          number: true,
          cell: (record) => formatOptionalMs(numberIn(record, isWork ? 'duration_ms' : 'total_ms')),
        },
        {
          key: 'tokens',
          head: 'Tokens in, out',
          number: true,
          cell: (record) =>
            `${formatNumber(sumOf(record, promptNames))}, ${formatNumber(sumOf(record, completionNames))}`,
        },
        ...details,
      ]}
    />
  );
}
