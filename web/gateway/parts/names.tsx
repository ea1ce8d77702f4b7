import { Link } from 'wouter';
import { CopyValue } from '../../ui/copy.tsx';
import css from '../gateway.module.css';
import { useNames } from '../queries.ts';

/** Accounts of the operator, which have no page. */
const systemAccounts: Readonly<Record<string, string>> = {
  revenue: 'revenue of the operator',
  house: 'cost of the operator',
  funding: 'source of credits',
};

export function AccountName({ id }: { id: string }) {
  const name = useNames().account(id);
  const system = systemAccounts[id];
  if (system !== undefined) return <span>{system}</span>;
  return <Link href={`/accounts/${encodeURIComponent(id)}`}>{name ?? id}</Link>;
}

export function KeyName({ id }: { id: string }) {
  const name = useNames().key(id);
  return <Link href={`/keys/${encodeURIComponent(id)}`}>{name ?? id}</Link>;
}

/** A name with its id below it, which can be copied. */
export const WithId = ({ id, what, children }: { id: string; what: string; children: React.ReactNode }) => (
  <span className={css['stack']}>
    <span>{children}</span>
    <span className={css['small']}>
      <CopyValue value={id} label={`the id of ${what}`} />
    </span>
  </span>
);
