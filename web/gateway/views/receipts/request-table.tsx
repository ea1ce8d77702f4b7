import { Link } from 'wouter';
import { formatMs, formatRelativeTime, formatTime } from '../../../ui/format.ts';
import { type Column, Table } from '../../../ui/index.tsx';
import type { ListedRequest } from '../../api.ts';
import css from '../../gateway.module.css';
import { formatExactMoney, formatMoney } from '../../format.ts';
import { AccountName, KeyName } from '../../parts/names.tsx';
import { OutcomeBadge } from '../../parts/outcome-badge.tsx';

/** Requests that ended; each leads to its receipt. */
export function RequestTable(props: {
  caption: string;
  requests: readonly ListedRequest[];
  withKey?: boolean;
}) {
  const { caption, requests, withKey = true } = props;
  const columns: readonly Column<ListedRequest>[] = [
    {
      key: 'request',
      head: 'Request',
      cell: ({ request_id: id, ended_at: at }) => (
        <span className={css['stack']}>
          <Link href={`/receipts/${encodeURIComponent(id)}`}>
            <code>{id}</code>
          </Link>
          <span className={css['small']} title={formatTime(at)}>
            {formatRelativeTime(at)}
          </span>
        </span>
      ),
    },
    {
      key: 'outcome',
      head: 'Outcome',
      cell: ({ state, status, outcome }) => <OutcomeBadge state={state} status={status} outcome={outcome} />,
    },
    {
      key: 'model',
      head: 'Model',
      cell: ({ requested_model: requested, effective_model: effective, provider }) => (
        <span className={css['stack']}>
          <span>{requested === effective ? effective : `${requested} → ${effective}`}</span>
          <span className={css['small']}>{provider}</span>
        </span>
      ),
    },
    ...(withKey
      ? [
          {
            key: 'key',
            head: 'Key',
            cell: ({ key, account }: ListedRequest) => (
              <span className={css['stack']}>
                <KeyName id={key} />
                <span className={css['small']}>
                  <AccountName id={account} />
                </span>
              </span>
            ),
          },
        ]
      : []),
    {
      key: 'charged',
      head: 'Charged',
      number: true,
      cell: ({ charged_nanodollars: nano }) => (
        <span title={formatExactMoney(nano)}>{formatMoney(nano)}</span>
      ),
    },
    {
      key: 'time',
      head: 'Time',
      number: true,
      cell: ({ total_ms: ms }) => (ms === null ? '' : formatMs(ms)),
    },
  ];
  return <Table caption={caption} rows={requests} keyOf={({ request_id: id }) => id} columns={columns} />;
}
