import { Link } from 'wouter';
import { asFault } from '../../../api/fault.ts';
import { CopyValue } from '../../../ui/copy.tsx';
import { formatMs, formatTime } from '../../../ui/format.ts';
import { Empty, Facts, Page, Panel, Table } from '../../../ui/index.tsx';
import type { RequestRecord } from '../../api.ts';
import css from '../../gateway.module.css';
import { formatCount, formatExactMoney } from '../../format.ts';
import { Loaded } from '../../parts/loaded.tsx';
import { AccountName, KeyName } from '../../parts/names.tsx';
import { OutcomeBadge } from '../../parts/outcome-badge.tsx';
import { useRequest } from '../../queries.ts';
import { timelineOf } from './timeline.ts';

/** One request: its receipt, what happened to it from the hold to the settlement, and its ledger entries. */
export function ReceiptPage({ id }: { id: string }) {
  const request = useRequest(id);
  if (asFault(request.error).status === 404)
    return (
      <Page title="Request not found">
        <Empty title={`There is no request ${id}.`}>
          The id is in the header x-svc-request-id of an answer. Requests of archived days are in their files
          only. <Link href="/receipts">Show all requests</Link>
        </Empty>
      </Page>
    );
  return (
    <Page title="Receipt" lead={<Link href="/receipts">All requests</Link>}>
      <Loaded read={request} what="the request">
        {(record) => <ReceiptDetails record={record} />}
      </Loaded>
    </Page>
  );
}

function ReceiptDetails({ record }: { record: RequestRecord }) {
  const { receipt } = record;
  return (
    <>
      <div className={css['panels']}>
        <Panel title="Request">
          <Facts
            facts={[
              ['Id', <CopyValue key="id" value={record.request_id} label="the id of the request" />],
              [
                'Outcome',
                <OutcomeBadge
                  key="outcome"
                  state={record.state}
                  status={receipt?.status}
                  outcome={receipt?.outcome}
                />,
              ],
              ['Account', <AccountName key="account" id={record.account} />],
              ['Key', <KeyName key="key" id={record.key} />],
              ['Requested model', record.requested_model],
              ['Effective model', record.effective_model],
              ['Provider', record.provider],
              ...(receipt
                ? [
                    ['Reason', receipt.reason ?? 'unknown'] as const,
                    ['Paid with', receipt.endpoint ?? 'unknown'] as const,
                    ['Wire', `${receipt.wire}${receipt.stream ? ', stream' : ''}`] as const,
                    ['Tier', receipt.service_tier] as const,
                    ['End user', receipt.tag ?? 'none'] as const,
                    ['Time', receipt.total_ms === null ? 'unknown' : formatMs(receipt.total_ms)] as const,
                    [
                      'First byte',
                      receipt.first_byte_ms === null ? 'none' : formatMs(receipt.first_byte_ms),
                    ] as const,
                  ]
                : []),
            ]}
          />
        </Panel>
        <Panel title="Timeline">
          <ol className={css['timeline']}>
            {timelineOf(record).map(({ at, title, text, isBad }, index) => (
              // oxlint-disable-next-line react/no-array-index-key -- events have no key, and their order is fixed
              <li key={index} {...(isBad ? { 'data-tone': 'bad' } : {})}>
                <strong>{title}</strong>
                <span>{text}</span>
                {at !== undefined && <span className={css['small']}>{formatTime(at)}</span>}
              </li>
            ))}
          </ol>
        </Panel>
      </div>
      {receipt && <CostPanel receipt={receipt} />}
      {record.entries.length > 0 && (
        <Panel title="Ledger entries">
          <Table
            caption="Ledger entries"
            rows={record.entries}
            keyOf={({ kind, account }) => `${kind} ${account}`}
            columns={[
              { key: 'at', head: 'Time', cell: ({ at }) => formatTime(at) },
              { key: 'kind', head: 'Kind', cell: ({ kind }) => kind },
              { key: 'account', head: 'Account', cell: ({ account }) => <AccountName id={account} /> },
              {
                key: 'amount',
                head: 'Amount',
                number: true,
                cell: ({ amount_nanodollars: nano }) => `${nano > 0 ? '+' : ''}${formatExactMoney(nano)}`,
              },
            ]}
          />
        </Panel>
      )}
    </>
  );
}

const componentNames: Readonly<Record<string, string>> = {
  fresh: 'Input',
  cache_write: 'Cache write',
  cache_read: 'Cache read',
  output: 'Output',
  tools: 'Tools',
  hedge: 'Hedged attempt',
};

function CostPanel({ receipt }: { receipt: NonNullable<RequestRecord['receipt']> }) {
  const { usage } = receipt;
  const tokens: Readonly<Record<string, number | undefined>> = usage
    ? {
        fresh: usage.prompt_tokens - usage.cached_tokens - usage.cache_write_tokens,
        cache_write: usage.cache_write_tokens,
        cache_read: usage.cached_tokens,
        output: usage.completion_tokens,
      }
    : {};
  const rows = [
    ...Object.entries(receipt.components).map(([name, nano]) => ({
      item: componentNames[name] ?? name,
      quantity: tokens[name],
      nano,
    })),
    ...receipt.lines.map(({ item, quantity, cost_nanousd: nano }) => ({
      item: `of it ${item}`,
      quantity,
      nano,
    })),
    { item: 'Charged', quantity: undefined, nano: receipt.cost_nanousd },
  ];
  return (
    <Panel title="Cost">
      <Table
        caption="Cost"
        rows={rows}
        keyOf={({ item }) => item}
        columns={[
          {
            key: 'item',
            head: 'Item',
            cell: ({ item }) => (item === 'Charged' ? <strong>{item}</strong> : item),
          },
          {
            key: 'quantity',
            head: 'Tokens or calls',
            number: true,
            cell: ({ quantity }) => (quantity === undefined ? '' : formatCount(quantity)),
          },
          { key: 'cost', head: 'Cost', number: true, cell: ({ nano }) => formatExactMoney(nano) },
        ]}
      />
    </Panel>
  );
}
