import type { Connection, Database } from '../../store/index.ts';
import { insertInto, type Statements, statementsOf } from '../store/index.ts';
import type { Outcome } from './batcher.ts';
import { type AccountSums, Book, type Changes, type ClaimRow, type KeySums, type Page } from './book.ts';
import { beatStatement, type thisReplica } from './heart.ts';
import type { HoldRow, Operation, RequestRow, Result } from './operations.ts';

const value = { value: 'text' } as const;
const claimKey = { account_id: 'text', key: 'text' } as const;
const claimEnd = { ...claimKey, request_id: 'text', state: 'text', answer: 'text?' } as const;

/** Rows by their ids, and those of the holds of requests: the values are both. */
const ofRequests = (table: string, holder: string, names: string) =>
  `with asked as (select value from {given})
   select ${names} from ${table} where id in (
     select value from asked
     union select ${holder} from gateway_holds where request_id in (select value from asked))`;

/** What it takes to commit operations; the same few statements however many they are. */
const written = ({ write, change }: Statements) => ({
  accounts: write<typeof value, AccountSums>(
    value,
    `${ofRequests('gateway_accounts', 'account_id', 'id, balance, held, allowance')} order by id {lock}`,
  ),
  keys: write<typeof value, KeySums>(
    value,
    ofRequests('gateway_keys', 'key_id', 'id, account_id, cap, spent, held, expires_at, revoked_at'),
  ),
  requests: write<typeof value, HoldRow & Pick<RequestRow, 'charged' | 'overrun'> & { over: string | null }>(
    value,
    `select hold.*, request.id as over, request.charged, request.overrun from {given}
     left join gateway_holds as hold on hold.request_id = given.value
     left join gateway_requests as request on request.id = given.value`,
  ),
  claims: write<typeof claimKey, ClaimRow>(
    claimKey,
    `select claim.* from gateway_idempotency as claim
     join {given} on claim.account_id = given.account_id and claim.key = given.key`,
  ),
  save: change({
    // The sums are conditions of the updates: what does not fit is not done, whatever was read before.
    accounts: {
      given: { id: 'text', balance: 'integer', held: 'integer', allowance: 'integer' } as const,
      text: `update gateway_accounts as account
        set balance = account.balance + given.balance, held = account.held + given.held,
            allowance = account.allowance + given.allowance
        from {given}
        where account.id = given.id
          and account.held + given.held between 0 and account.balance + given.balance`,
    },
    keys: {
      given: { id: 'text', spent: 'integer', held: 'integer' } as const,
      text: `update gateway_keys as api_key
        set spent = api_key.spent + given.spent, held = api_key.held + given.held
        from {given}
        where api_key.id = given.id and api_key.held + given.held >= 0
          and (api_key.cap is null
            or api_key.spent + given.spent + api_key.held + given.held <= api_key.cap)`,
    },
    opened: insertInto('gateway_holds'),
    closed: {
      given: value,
      text: 'delete from gateway_holds where request_id in (select value from {given})',
    },
    requests: insertInto('gateway_requests'),
    transactions: insertInto('gateway_transactions'),
    entries: insertInto('gateway_entries'),
  }),
  endClaims: write(
    claimEnd,
    `update gateway_idempotency as claim set state = given.state, answer = given.answer from {given}
     where claim.account_id = given.account_id and claim.key = given.key
       and claim.request_id = given.request_id`,
  ),
  freeClaims: write(
    claimEnd,
    `delete from gateway_idempotency where (account_id, key, request_id) in (
       select account_id, key, request_id from {given})`,
  ),
  claim: change({
    claims: insertInto(
      'gateway_idempotency',
      `on conflict (account_id, key) do update set body_hash = excluded.body_hash,
       request_id = excluded.request_id, state = excluded.state, claimed_at = excluded.claimed_at,
       answer = excluded.answer`,
    ),
  }),
});

/** @returns what does operations, in their order, within a transaction that is open */
export function committer(kind: Database['kind']) {
  const statements = written(statementsOf(kind));
  const beat = beatStatement(kind);
  return async (
    connection: Connection,
    operations: readonly Operation[],
    replica: ReturnType<typeof thisReplica> | undefined,
  ): Promise<Outcome<Result>[]> => {
    if (replica) await beat(connection, [replica]);
    const book = new Book(await read(statements, connection, operations));
    const outcomes = operations.map((operation): Outcome<Result> => {
      try {
        return { value: book.do(operation) };
      } catch (error) {
        return { error };
      }
    });
    await save(statements, connection, book.changes());
    return outcomes;
  };
}

type Written = ReturnType<typeof written>;

async function read(known: Written, connection: Connection, operations: readonly Operation[]): Promise<Page> {
  const accounts = new Set<string>();
  const keys = new Set<string>();
  const requests = new Set<string>();
  const claims: { account_id: string; key: string }[] = [];
  for (const operation of operations) {
    if (operation.kind === 'reserve') {
      const { account_id, key_id, request_id, idempotency_key: key } = operation.hold;
      accounts.add(account_id);
      keys.add(key_id);
      requests.add(request_id);
      if (key !== null) claims.push({ account_id, key });
    } else if (operation.kind === 'note') requests.add(operation.request.id);
    else if (operation.kind !== 'beat') requests.add(operation.requestId);
  }
  const about = (...sets: ReadonlySet<string>[]) =>
    sets.flatMap((set) => [...set].map((id) => ({ value: id })));
  // First, and in the order of their ids everywhere: nobody waits for somebody who waits for him. Whoever changes a
  // hold or a key's sums has locked its account, so what is read after this stays true until the commit.
  const locked = (await known.accounts(connection, about(accounts, requests))).rows;
  const states = (await known.requests(connection, about(requests))).rows;
  return {
    accounts: locked,
    keys: (await known.keys(connection, about(keys, requests))).rows,
    // Of a left join: null where there is none.
    holds: states.filter(({ request_id }) => request_id !== null),
    requests: states.flatMap(({ over, charged, overrun }) =>
      over === null ? [] : [{ id: over, charged, overrun }],
    ),
    claims: (await known.claims(connection, claims)).rows,
  };
}

async function save(known: Written, connection: Connection, changes: Changes): Promise<void> {
  const { claims, claimEnds, closed, ...rest } = changes;
  const given = { ...rest, closed: closed.map((id) => ({ value: id })) };
  const changed = await known.save(connection, given);
  for (const name of ['accounts', 'keys', 'closed'] as const)
    if (changed[name] !== given[name].length)
      throw new Error(`the ledger's ${name} changed while they were locked`);
  const isFree = ({ state }: (typeof claimEnds)[number]) => state === 'free';
  await known.endClaims(
    connection,
    claimEnds.filter((end) => !isFree(end)),
  );
  await known.freeClaims(connection, claimEnds.filter(isFree));
  await known.claim(connection, { claims });
}
