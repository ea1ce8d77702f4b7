import { Badge } from '../../../ui/index.tsx';
import type { Finding } from './check-receipt.ts';
import css from './sessions.module.css';

/** Results of verifying a receipt in the page. */
export const Findings = ({ findings }: { findings: readonly Finding[] }) => (
  <ul className={css['findings']} aria-label="Checks by this page">
    {findings.map(({ check, ok, detail }) => (
      <li key={check}>
        <Verdict ok={ok} /> <strong>{check}</strong> <span>{detail}</span>
      </li>
    ))}
  </ul>
);

export function Verdict({ ok }: { ok: boolean | undefined }) {
  if (ok === undefined) return <Badge tone="warn">not checked</Badge>;
  return ok ? <Badge tone="good">valid</Badge> : <Badge tone="bad">invalid</Badge>;
}
