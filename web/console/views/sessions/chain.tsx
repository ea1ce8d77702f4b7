import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { CodeBlock, CopyValue } from '../../../ui/copy.tsx';
import { formatTime } from '../../../ui/format.ts';
import { protectedQueryOptions, ProtectedRouteFault } from '../../shell/protected-route.tsx';
import { Badge, Button, Empty, Field, Loading, Panel, Table } from '../../../ui/index.tsx';
import { useUrlState } from '../../../ui/url-state.ts';
import { useInfo } from '../home/info.ts';
import { checkChain, findInvalidLink, type ChainLink } from './chain.ts';
import { Verdict } from './findings.tsx';
import css from './sessions.module.css';
import { StateBadge } from '../../../ui/state-badge.tsx';

const counts = ['20', '100', '500', '1000'];

/** The chain of receipts of this host, verified in the page. */
export function Chain() {
  const [count, setCount] = useUrlState('count', '100');
  const info = useInfo();
  const { endpoint_id: endpointId, receipt_key: key } = info.data ?? {};
  const chain = useQuery({
    queryKey: ['receipt-chain', endpointId, key, count],
    enabled: endpointId !== undefined,
    ...protectedQueryOptions,
    staleTime: Infinity,
    queryFn: ({ signal }) =>
      checkChain({ endpointId: endpointId ?? '', key, count: Number(count) || 100, signal }),
  });
  return (
    <Panel
      title="Receipts, newest first"
      tools={
        <Button busy={chain.isFetching} onClick={() => void chain.refetch()}>
          Check again
        </Button>
      }
    >
      <p>
        Each receipt holds the digest of the previous one and is signed with the host's key, so changes, gaps
        and reordering can be detected. This page fetches the receipts and verifies them itself.
      </p>
      <div className={css['filters']}>
        <Field label="Show">
          {(control) => (
            <select {...control} value={count} onChange={({ target }) => setCount(target.value)}>
              {[...new Set([...counts, count])].map((one) => (
                <option key={one} value={one}>
                  newest {one}
                </option>
              ))}
            </select>
          )}
        </Field>
      </div>
      {chain.isPending && <Loading what="the receipts" />}
      {chain.isError && (
        <ProtectedRouteFault
          what="the chain of receipts"
          error={chain.error}
          retry={() => void chain.refetch()}
        />
      )}
      {chain.data &&
        (chain.data.length === 0 ? (
          <Empty title="No receipts yet.">
            A receipt is written when a task, run or external session ends.
          </Empty>
        ) : (
          <>
            <Summary links={chain.data} keyId={key?.key_id} />
            <ChainTable links={chain.data} />
          </>
        ))}
      <details>
        <summary>Verify the whole chain on the command line</summary>
        <CodeBlock
          label="Command that verifies the chain"
          code="node dist/host.js receipts verify --data-dir DIR"
        />
        <p>
          The command reads the host's database from the first receipt on and also detects a truncated chain.
        </p>
      </details>
    </Panel>
  );
}

function Summary({ links, keyId }: { links: readonly ChainLink[]; keyId: string | undefined }) {
  const invalidLink = findInvalidLink(links);
  const oldest = links.at(-1)?.receipt;
  const hasUnchecked = links
    .flatMap(({ findings }) => findings)
    .some(({ check, ok }) => ok === undefined && check !== 'Chain');
  if (invalidLink)
    return (
      <p role="status">
        <Badge tone="bad">broken</Badge> Receipt {invalidLink.receipt.seq} ({invalidLink.receipt.id}):{' '}
        {invalidLink.findings
          .filter(({ ok }) => ok === false)
          .map(({ check, detail }) => `${check}: ${detail}`)
          .join(' ')}
      </p>
    );
  if (hasUnchecked)
    return (
      <p role="status">
        <Badge tone="warn">not checked</Badge> {links[0]?.findings[0]?.detail} The command below checks them.
      </p>
    );
  return (
    <p role="status">
      <Badge tone="good">valid</Badge> {links.length} receipts, {oldest?.seq} to {links[0]?.receipt.seq},
      signed by {keyId === undefined ? 'an unknown key' : <CopyValue value={keyId} label="the key's id" />}
      {oldest?.seq === 1 ? ', from the first receipt on.' : '. Older receipts were not checked.'}
    </p>
  );
}

const shortDigest = (digest: string): string => `${digest.slice(7, 19)}...`;

function ChainTable({ links }: { links: readonly ChainLink[] }) {
  const linkVerdict = ({ findings }: ChainLink, ...names: string[]) => {
    const results = findings.filter(({ check }) => names.includes(check)).map(({ ok }) => ok);
    if (results.includes(false)) return false;
    return results.length === 0 || results.includes(undefined) ? undefined : true;
  };
  return (
    <Table
      caption="The chain of receipts"
      rows={links}
      keyOf={({ receipt }) => receipt.id}
      columns={[
        { key: 'seq', head: 'No.', number: true, cell: ({ receipt }) => receipt.seq },
        {
          key: 'id',
          head: 'Session',
          cell: ({ receipt }) => (
            <Link href={`/console/sessions/${encodeURIComponent(receipt.id)}`}>{receipt.id}</Link>
          ),
        },
        {
          key: 'outcome',
          head: 'Outcome',
          cell: ({ receipt }) => <StateBadge state={receipt.outcome} isRecorded />,
        },
        {
          key: 'ended',
          head: 'Ended',
          cell: ({ receipt }) => <span className={css['nowrap']}>{formatTime(receipt.ended_at)}</span>,
        },
        {
          key: 'digest',
          head: 'Digest',
          cell: ({ receipt }) => (
            <CopyValue value={receipt.digest} label={`the digest of receipt ${receipt.seq}`}>
              {shortDigest(receipt.digest)}
            </CopyValue>
          ),
        },
        {
          key: 'before',
          head: 'Previous digest',
          cell: (link) => (
            <span className={css['nowrap']}>
              <code title={link.receipt.prev_digest}>{shortDigest(link.receipt.prev_digest)}</code>{' '}
              <Verdict ok={linkVerdict(link, 'Chain')} />
            </span>
          ),
        },
        {
          key: 'signature',
          head: 'Digest, key and signature',
          cell: (link) => <Verdict ok={linkVerdict(link, 'Digest', 'Key', 'Signature')} />,
        },
      ]}
    />
  );
}
