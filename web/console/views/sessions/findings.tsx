import { Badge } from '../../parts/index.tsx';
import type { Finding } from './check-receipt.ts';
import css from './sessions.module.css';

/** What the page found when it looked at a receipt itself. */
export const Findings = ({ findings }: { findings: readonly Finding[] }) => (
  <ul className={css['findings']} aria-label="What this page checked">
    {findings.map(({ what, ok, said }) => (
      <li key={what}>
        <Verdict ok={ok} /> <strong>{what}</strong> <span>{said}</span>
      </li>
    ))}
  </ul>
);

export function Verdict({ ok }: { ok: boolean | undefined }) {
  if (ok === undefined) return <Badge tone="warn">not checked</Badge>;
  return ok ? <Badge tone="good">fits</Badge> : <Badge tone="bad">does not fit</Badge>;
}
