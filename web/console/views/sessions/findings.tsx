import { Badge } from '../../parts/index.tsx';
import type { Finding } from './check-receipt.ts';
import css from './sessions.module.css';

/** Results of verifying a receipt in the page. */
export const Findings = ({ findings }: { findings: readonly Finding[] }) => (
  <ul className={css['findings']} aria-label="Checks by this page">
    {findings.map(({ what, ok, said }) => (
      <li key={what}>
        <Verdict ok={ok} /> <strong>{what}</strong> <span>{said}</span>
      </li>
    ))}
  </ul>
);

export function Verdict({ ok }: { ok: boolean | undefined }) {
  if (ok === undefined) return <Badge tone="warn">not checked</Badge>;
  return ok ? <Badge tone="good">valid</Badge> : <Badge tone="bad">invalid</Badge>;
}
