import { sql } from 'kysely';
import type { GatewayStore } from '../store/index.ts';
import type { AuditReport } from './types.ts';
import { usageColumns, usageGroup, usageSums } from '../usage/rollups.ts';

/** A query whose rows are faults. `subject` names the row concerned; the other two are amounts or counts. */
interface AuditCheck {
  readonly query: string;
  readonly describe: (subject: string, actual: bigint, expectedValue: bigint) => string;
}

const total = (column: string) => `cast(coalesce(sum(${column}), 0) as bigint)`;

/** Compares the stored sums with the requests that they count: rows of both, the latter with the opposite sign. */
const usageDifferences = `select ${usageGroup.join(', ')}, ${usageSums.join(', ')}, spent as stored, 0 as charged
    from gateway_usage
  union all select ${usageGroup.map((name) => usageColumns[name]).join(', ')},
    ${usageSums.map((name) => `-(${usageColumns[name]})`).join(', ')}, 0, charged
    from gateway_requests where ended <> 'refused' and tag is not null`;
/** Days with an archive: only the sums of every key are known. */
const archivedDays = '(select day from gateway_archives)';

const components = 'cost_fresh + cost_cache_write + cost_cache_read + cost_output + cost_tools + cost_hedge';

/** Every check sums by account or key in one pass, so that each table is read once. */
const checks: readonly AuditCheck[] = [
  {
    query: `select 'all' as subject, ${total('amount')} as found, 0 as expected
      from gateway_entries having sum(amount) <> 0`,
    describe: (_, actual) => `All entries add up to ${actual}, not to 0.`,
  },
  {
    query: `select kind || ' ' || reference, ${total('amount')}, 0
      from gateway_entries group by kind, reference having sum(amount) <> 0`,
    describe: (subject, actual) => `The entries of transaction ${subject} add up to ${actual}, not to 0.`,
  },
  {
    query: `select entry.kind || ' ' || entry.reference, entry.amount, 0 from gateway_entries as entry
      left join gateway_transactions as made on made.reference = entry.reference and made.kind = entry.kind
      where made.reference is null`,
    describe: (subject, actual) =>
      `An entry of ${actual} belongs to transaction ${subject}, which does not exist.`,
  },
  {
    query: `select made.kind || ' ' || made.reference, count(entry.amount), 2
      from gateway_transactions as made
      left join gateway_entries as entry on made.reference = entry.reference and made.kind = entry.kind
      group by made.kind, made.reference having count(entry.amount) < 2`,
    describe: (subject, actual) => `Transaction ${subject} has ${actual} entries; it needs at least two.`,
  },
  {
    query: `select entry.account_id, ${total('entry.amount')}, 0 from gateway_entries as entry
      left join gateway_accounts as account on account.id = entry.account_id
      where account.id is null group by entry.account_id`,
    describe: (subject, actual) => `Entries of ${actual} belong to account ${subject}, which does not exist.`,
  },
  {
    query: `select account.id, account.balance, coalesce(booked.amount, 0) from gateway_accounts as account
      left join (select account_id, ${total('amount')} as amount from gateway_entries group by account_id) as booked
        on booked.account_id = account.id
      where account.kind = 'user' and account.balance <> coalesce(booked.amount, 0)`,
    describe: (subject, actual, expectedValue) =>
      `Account ${subject} has a balance of ${actual}; its entries add up to ${expectedValue}.`,
  },
  {
    query: `select account.id, account.included, coalesce(booked.amount, 0) from gateway_accounts as account
      left join (select account_id, ${total('amount')} as amount from gateway_entries
        where kind = 'include' group by account_id) as booked on booked.account_id = account.id
      where account.kind = 'user' and account.included <> coalesce(booked.amount, 0)`,
    describe: (subject, actual, expectedValue) =>
      `Account ${subject} included ${actual}; its entries of that kind add up to ${expectedValue}.`,
  },
  ...['gateway_accounts account_id', 'gateway_keys key_id'].flatMap((pair): AuditCheck[] => {
    const [table = '', column = ''] = pair.split(' ');
    const noun = column === 'key_id' ? 'Key' : 'Account';
    return [
      {
        query: `select owner.id, owner.held, coalesce(open.amount, 0) from ${table} as owner
          left join (select ${column} as id, ${total('amount')} as amount from gateway_holds group by ${column}) as open
            on open.id = owner.id
          where owner.held <> coalesce(open.amount, 0)`,
        describe: (subject, actual, expectedValue) =>
          `${noun} ${subject} holds ${actual}; its open holds add up to ${expectedValue}.`,
      },
      {
        query: `select hold.request_id, hold.amount, 0 from gateway_holds as hold
          left join ${table} as owner on owner.id = hold.${column} where owner.id is null`,
        describe: (subject) => `The hold of request ${subject} belongs to an unknown ${noun.toLowerCase()}.`,
      },
    ];
  }),
  {
    query: `select id, balance - held, 0 from gateway_accounts
      where balance < held or held < 0 or allowance < 0 or allowance > balance`,
    describe: (subject, actual) =>
      `Account ${subject} has ${actual} free, or its held amount or allowance is out of range.`,
  },
  {
    query: `select id, spent + held, coalesce(cap, 0) from gateway_keys
      where spent < 0 or held < 0 or spent + held > cap`,
    describe: (subject, actual, expectedValue) =>
      `Key ${subject} has spent or held ${actual}; its cap is ${expectedValue}.`,
  },
  {
    query: `select api_key.id, api_key.spent, coalesce(paid.amount, 0) from gateway_keys as api_key
      left join (select key_id, ${total('charged')} as amount from (
          select key_id, charged from gateway_requests union all select key_id, spent from gateway_archived) as request
        group by key_id) as paid on paid.key_id = api_key.id
      where api_key.spent <> coalesce(paid.amount, 0)`,
    describe: (subject, actual, expectedValue) =>
      `Key ${subject} has spent ${actual}; its requests were charged ${expectedValue}.`,
  },
  {
    query: `select 'key ' || key_id || ', ' || day || ', ' || provider || ', ' || model || ', tag ''' || tag || '''',
        ${total('stored')}, ${total('charged')}
      from (${usageDifferences}) as difference where day not in ${archivedDays} group by ${usageGroup.join(', ')}
      having ${usageSums.map((name) => `sum(${name}) <> 0`).join(' or ')}`,
    describe: (subject, actual, expectedValue) =>
      `The usage of ${subject} differs from its requests: it has spent ${actual}, they were charged ${expectedValue}.`,
  },
  {
    query: `select 'key ' || key_id || ', ' || day, ${total('stored')}, ${total('charged')}
      from (${usageDifferences} union all
        select key_id, day, '', '', '', account_id, -requests, 0, 0, 0, -spent, 0, spent from gateway_archived) as difference
      where day in ${archivedDays} group by key_id, day having sum(requests) <> 0 or sum(spent) <> 0`,
    describe: (subject, actual, expectedValue) =>
      `The usage of ${subject} differs from its archived requests: it has spent ${actual}, they were charged ${expectedValue}.`,
  },
  {
    query: `select day || ', account ' || account_id, ${total('entered')}, ${total('charged')} from (
        select day, account_id, 0 as entered, -spent as charged from gateway_archived
        union all select archive.day, entry.account_id, entry.amount, 0 from gateway_entries as entry
          join gateway_archives as archive on entry.reference = 'archive-' || archive.day
          join gateway_accounts as account on account.id = entry.account_id and account.kind = 'user'
          where entry.kind = 'archive') as moved
      group by day, account_id having sum(entered) <> sum(charged)`,
    describe: (subject, actual, expectedValue) =>
      `The archived entries of ${subject} add up to ${actual}; its archived requests to ${expectedValue}.`,
  },
  {
    query: `select budget.id, budget.held, ${total('hold.amount')} from gateway_budgets as budget
      left join gateway_holds as hold on ' ' || hold.budgets || ' ' like '%:' || budget.id || ' %'
      group by budget.id, budget.held having budget.held <> coalesce(sum(hold.amount), 0)`,
    describe: (subject, actual, expectedValue) =>
      `Budget ${subject} holds ${actual}; its open holds add up to ${expectedValue}.`,
  },
  {
    query: `select hold.request_id, hold.amount, 0 from gateway_holds as hold
      join gateway_requests as request on request.id = hold.request_id`,
    describe: (subject, actual) => `Request ${subject} has ended, but ${actual} are still held for it.`,
  },
  ...[
    { name: 'was charged', sum: 'request.charged', account: 'request.account_id', sign: '-' },
    { name: 'overran by', sum: 'request.overrun', account: "'house'", sign: '-' },
    { name: 'cost', sum: 'request.cost', account: "'revenue'", sign: '' },
  ].map(
    ({ name, sum, account, sign }): AuditCheck => ({
      query: `select request.id, ${sum}, ${sign}coalesce(entry.amount, 0) from gateway_requests as request
        left join gateway_entries as entry
          on entry.reference = request.id and entry.kind = 'settle' and entry.account_id = ${account}
        where ${sum} <> ${sign}coalesce(entry.amount, 0)`,
      describe: (subject, actual, expectedValue) =>
        `Request ${subject} ${name} ${actual}; the ledger has ${expectedValue}.`,
    }),
  ),
  {
    query: `select id, cost, ${components} from gateway_requests
      where cost <> ${components}
        or cost <> charged + overrun or charged > amount`,
    describe: (subject, actual, expectedValue) =>
      `Request ${subject} cost ${actual}; its components add up to ${expectedValue}.`,
  },
  {
    query: `select made.reference, 1, 0 from gateway_transactions as made
      left join gateway_requests as request on request.id = made.reference
      where made.kind = 'settle' and request.id is null`,
    describe: (subject) => `Request ${subject} was settled, but has no row.`,
  },
  {
    query: `select claim.request_id, 1, 0 from gateway_idempotency as claim
      left join gateway_holds as hold on hold.request_id = claim.request_id
      where claim.state = 'open' and hold.request_id is null`,
    describe: (subject) => `Request ${subject} keeps an idempotency key open, but is not running.`,
  },
];

const counts = {
  accounts: "gateway_accounts where kind = 'user'",
  transactions: 'gateway_transactions',
  entries: 'gateway_entries',
  openHolds: 'gateway_holds',
};

/** Checks all invariants of the tables in one statement, so that they are read from one snapshot. */
export async function audit(store: GatewayStore): Promise<AuditReport> {
  const queries = [
    ...Object.entries(counts).map(
      ([name, from]) =>
        `select '${name}' as question, '' as subject, count(*) as found, 0 as expected from ${from}`,
    ),
    ...checks.map(({ query }, index) => `select '${index}', checked.* from (${query}) as checked`),
  ];
  const { rows } = await store.read((db) =>
    sql<Finding>`${sql.raw(queries.join('\nunion all\n'))}`.execute(db),
  );
  const faults = rows.flatMap(({ question, subject, found, expected }) => {
    const check = checks[Number(question)];
    return check ? [check.describe(subject, BigInt(found), BigInt(expected))] : [];
  });
  const count = (name: keyof typeof counts) =>
    Number(rows.find(({ question }) => question === name)?.found ?? 0);
  return {
    ok: faults.length === 0,
    accounts: count('accounts'),
    transactions: count('transactions'),
    entries: count('entries'),
    openHolds: count('openHolds'),
    faults,
  };
}

interface Finding {
  readonly question: string;
  readonly subject: string;
  readonly found: bigint | number;
  readonly expected: bigint | number;
}
