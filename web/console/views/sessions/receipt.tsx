import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { api, unwrap } from '../../../api/client.ts';
import { asFault } from '../../../api/fault.ts';
import { CodeBlock, CopyButton, CopyValue } from '../../../ui/copy.tsx';
import { Empty, Facts, FaultNote, Loading, Panel } from '../../../ui/index.tsx';
import { useInfo } from '../home/info.ts';
import { checkReceipt } from './check-receipt.ts';
import { Findings } from './findings.tsx';
import css from './sessions.module.css';

/** The receipt of an ended session, verified in the page. */
export function ReceiptPanel({ id, isOver }: { id: string; isOver: boolean }) {
  const info = useInfo();
  const key = info.data?.receipt_key;
  const receipt = useQuery({
    queryKey: ['agent', 'receipt', id, isOver],
    queryFn: () => unwrap(api.GET('/agent/v1/sessions/{id}/receipt', { params: { path: { id } } })),
    staleTime: Infinity,
  });
  const check = useQuery({
    queryKey: ['receipt-check', receipt.data, key],
    enabled: receipt.data !== undefined && info.data !== undefined,
    queryFn: () => (receipt.data ? checkReceipt(receipt.data, key) : []),
    staleTime: Infinity,
  });
  if (receipt.isPending) return <Loading what="the receipt" />;
  if (receipt.isError) {
    if (asFault(receipt.error).status === 404)
      return (
        <Panel title="Receipt">
          <Empty title="This session has no receipt.">
            The host writes and signs a receipt when a task, run or external session ends.
          </Empty>
        </Panel>
      );
    return <FaultNote error={receipt.error} retry={() => void receipt.refetch()} />;
  }
  const { digest, prev_digest: before, signature, ...members } = receipt.data;
  return (
    <Panel
      title="Receipt"
      tools={
        <>
          <CopyButton text={() => JSON.stringify(receipt.data, null, 2)} label="the receipt" />
          <Link href="/console/sessions/receipts">The whole chain</Link>
        </>
      }
    >
      {check.isError && <FaultNote error={check.error} />}
      {check.data && <Findings findings={check.data} />}
      <Facts
        facts={[
          ...Object.entries(members).map(
            ([name, value]) =>
              [
                name.replaceAll('_', ' '),
                typeof value === 'string' || typeof value === 'number' ? value : JSON.stringify(value),
              ] as const,
          ),
          ['digest', <CopyValue key="digest" value={digest} label="the digest" />],
          ['previous digest', <CopyValue key="before" value={before} label="the previous digest" />],
          ['signature', <CopyValue key="signature" value={signature.value} label="the signature" />],
          ['signed by', <CopyValue key="key" value={signature.key_id} label="the key's id" />],
        ]}
      />
      <p className={css['muted']}>Absent members are not disclosed; they are not zero.</p>
      <details>
        <summary>Verify it without trusting this page</summary>
        <p>
          Save the response of the host and verify it on the command line, with the host's key from a source
          that you trust:
        </p>
        <CodeBlock
          label="Commands that verify the receipt"
          code={`curl -s ${location.origin}/agent/v1/sessions/${id}/receipt > receipt.json\nnode dist/host.js receipts verify receipt.json --key ${key?.public_key ?? 'KEY'}`}
        />
      </details>
    </Panel>
  );
}
