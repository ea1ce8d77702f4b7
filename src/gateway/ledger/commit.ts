import type { Connection, Database } from '../../store/index.ts';
import { insertInto, type Statements, statementsOf } from '../store/index.ts';
import { type BudgetNotice, toNoticeRow } from '../budgets/notices.ts';
import { lockBudgets, prepareBudgetStatements, saveBudgets } from '../budgets/statements.ts';
import type { OperationOutcome } from './batcher.ts';
import {
  type AccountSums,
  LedgerBatch,
  type RowChanges,
  type ClaimRow,
  type KeySums,
  type LockedRows,
} from './ledger-batch.ts';
import { heartbeatStatement, type ownReplica } from './heartbeat.ts';
import type { HoldRow, Operation, OperationResult } from './operations.ts';
import { addUsage } from '../usage/rollups.ts';

const value = { value: 'text' } as const;
const claimKey = { account_id: 'text', key: 'text' } as const;
const claimOwner = { ...claimKey, request_id: 'text' } as const;
const claimEnd = { ...claimOwner, state: 'text', answer: 'text?' } as const;

/** A request's open hold and its settled row, if any. */
interface RequestState {
  readonly open: string | null;
  /** The budgets that the hold counts in. */
  readonly budgets: string | null;
  readonly id: string | null;
  readonly charged: bigint;
  readonly overrun: bigint;
}

/** The SQL statements of a commit. Their number does not depend on the number of operations. */
const prepareStatements = ({ prepare, prepareChange }: Statements) => ({
  accounts: prepare<typeof value, AccountSums>(
    value,
    `select id, balance, held, allowance, disabled_at, parent_id from gateway_accounts as account, {given}
     where account.id = given.value order by id {lock account}`,
  ),
  keys: prepare<typeof value, KeySums>(
    value,
    `select id, account_id, cap, spent, held, expires_at, revoked_at, disabled_at, revision
     from gateway_keys as api_key, {given}
     where api_key.id = given.value`,
  ),
  requests: prepare<typeof value, RequestState>(
    value,
    `select hold.request_id as open, hold.budgets, request.id, request.charged, request.overrun
     from (select 1) as one, {given}
     left join gateway_holds as hold on hold.request_id = given.value
     left join gateway_requests as request on request.id = given.value`,
  ),
  claims: prepare<typeof claimKey, ClaimRow>(
    claimKey,
    `select claim.* from gateway_idempotency as claim, {given}
     where claim.account_id = given.account_id and claim.key = given.key`,
  ),
  save: prepareChange({
    // The updates check the sums themselves, so that an invalid sum is never written, whatever was read before.
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
    budgets: saveBudgets,
    notices: insertInto('gateway_notices'),
    opened: insertInto('gateway_holds'),
    closed: {
      given: value,
      text: 'delete from gateway_holds as hold using {given} where hold.request_id = given.value',
    },
    requests: insertInto('gateway_requests'),
    transactions: insertInto('gateway_transactions'),
    entries: insertInto('gateway_entries'),
    usage: addUsage,
  }),
  endClaims: prepare(
    claimEnd,
    `update gateway_idempotency as claim set state = given.state, answer = given.answer from {given}
     where claim.account_id = given.account_id and claim.key = given.key
       and claim.request_id = given.request_id`,
  ),
  freeClaims: prepare(
    claimOwner,
    `delete from gateway_idempotency as claim using {given}
     where claim.account_id = given.account_id and claim.key = given.key
       and claim.request_id = given.request_id`,
  ),
  claim: prepareChange({
    claims: insertInto(
      'gateway_idempotency',
      `on conflict (account_id, key) do update set body_hash = excluded.body_hash,
       request_id = excluded.request_id, state = excluded.state, claimed_at = excluded.claimed_at,
       answer = excluded.answer`,
    ),
  }),
});

/** The result of a commit; the notices are valid once it is durable. */
interface CommitResult {
  readonly outcomes: readonly OperationOutcome<OperationResult>[];
  readonly notices: readonly BudgetNotice[];
}

/** @returns a function that commits operations, in order, within an open transaction */
export function createCommitter(kind: Database['kind']) {
  const statements = {
    ...prepareStatements(statementsOf(kind)),
    budgets: prepareBudgetStatements(statementsOf(kind)),
  };
  const heartbeat = heartbeatStatement(kind);
  return async (
    connection: Connection,
    operations: readonly Operation[],
    replica: ReturnType<typeof ownReplica> | undefined,
  ): Promise<CommitResult> => {
    if (replica) await heartbeat(connection, [replica]);
    const batch = new LedgerBatch(await readLockedRows(statements, connection, operations));
    const outcomes = operations.map((operation): OperationOutcome<OperationResult> => {
      try {
        return { value: batch.apply(operation) };
      } catch (error) {
        return { error };
      }
    });
    const changes = batch.changes();
    await writeChanges(statements, connection, changes);
    return { outcomes, notices: changes.notices };
  };
}

type CommitStatements = ReturnType<typeof prepareStatements> & {
  readonly budgets: ReturnType<typeof prepareBudgetStatements>;
};

async function readLockedRows(
  statements: CommitStatements,
  connection: Connection,
  operations: readonly Operation[],
): Promise<LockedRows> {
  const requests = new Set<string>();
  const holds = new Map<string, HoldRow>();
  const claims: { account_id: string; key: string }[] = [];
  for (const operation of operations) {
    if (operation.kind === 'beat') continue;
    requests.add(requestOf(operation));
    if (operation.kind === 'note') continue;
    const { hold } = operation;
    if (hold) holds.set(hold.request_id, hold);
    if (operation.kind !== 'reserve') continue;
    const { account_id, idempotency_key: key } = operation.hold;
    if (key !== null) claims.push({ account_id, key });
  }
  const toValueRows = (ids: Iterable<string>) => Array.from(new Set(ids), (id) => ({ value: id }));
  const payers = [...holds.values()];
  // Accounts are locked first, and always in the order of their ids, which prevents deadlocks. Every change of a hold or
  // of a key's sums locks the account, so what is read after this stays valid until the commit.
  const accounts = await statements.accounts(
    connection,
    toValueRows(payers.map(({ account_id }) => account_id)),
  );
  const states = (await statements.requests(connection, toValueRows(requests))).rows;
  // The database knows the budgets of a hold, which were chosen when it was placed.
  const open = states.flatMap((state) => {
    const hold = state.open === null ? undefined : holds.get(state.open);
    return hold ? [{ ...hold, budgets: state.budgets }] : [];
  });
  const parented = accounts.rows.flatMap(({ id, parent_id }) => (parent_id === null ? [] : [id]));
  const budgets = await lockBudgets(statements.budgets, connection, { operations, open, parented });
  return {
    accounts: accounts.rows,
    keys: (await statements.keys(connection, toValueRows(payers.map(({ key_id }) => key_id)))).rows,
    holds: open,
    // From a left join: null when there is no row.
    requests: states.flatMap(({ id, charged, overrun }) => (id === null ? [] : [{ id, charged, overrun }])),
    claims: (await statements.claims(connection, claims)).rows,
    budgets,
  };
}

function requestOf(operation: Exclude<Operation, { kind: 'beat' }>): string {
  if (operation.kind === 'finish') return operation.requestId;
  return operation.kind === 'note' ? operation.request.id : operation.hold.request_id;
}

async function writeChanges(
  statements: CommitStatements,
  connection: Connection,
  changes: RowChanges,
): Promise<void> {
  const { claims, claimEnds, closed, notices, ...rest } = changes;
  const given = {
    ...rest,
    closed: closed.map((id) => ({ value: id })),
    notices: notices.map(toNoticeRow),
  };
  const changed = await statements.save(connection, given);
  for (const name of ['accounts', 'keys', 'budgets', 'closed'] as const)
    if (changed[name] !== given[name].length)
      throw new Error(`rows of the ledger's ${name} changed while they were locked`);
  const isFree = ({ state }: (typeof claimEnds)[number]) => state === 'free';
  await statements.endClaims(
    connection,
    claimEnds.filter((end) => !isFree(end)),
  );
  await statements.freeClaims(connection, claimEnds.filter(isFree));
  await statements.claim(connection, { claims });
}
