/** JSON of accounts, keys, budgets and changes, for commands and the admin API, in both directions. */
import { z } from 'zod';
import { balanceSchema, nanodollarsToJson, toBalanceBody } from '../catalog/bodies.ts';
import type { Budget } from '../budgets/types.ts';
import type { AccountRow, ChangeRow, ShownKey } from './types.ts';

const time = z.string().describe('RFC 3339, in UTC.');

export const accountSchema = z
  .object({
    id: z.string(),
    name: z.string(),
    created_at: time,
    disabled_at: time.nullable(),
    parent: z.string().nullable().describe('Id of the account above it, whose budgets count for it, too.'),
    balance: balanceSchema,
    held_nanodollars: z.int(),
  })
  .meta({ id: 'Account' });

export const toAccountBody = ({
  id,
  name,
  createdAt,
  disabledAt,
  parentId,
  balance,
  held,
}: AccountRow): z.infer<typeof accountSchema> => ({
  id,
  name,
  created_at: createdAt,
  disabled_at: disabledAt ?? null,
  parent: parentId ?? null,
  balance: toBalanceBody(balance),
  held_nanodollars: nanodollarsToJson(held),
});

export const fromAccountBody = (body: z.infer<typeof accountSchema>): AccountRow => ({
  id: body.id,
  name: body.name,
  createdAt: body.created_at,
  disabledAt: body.disabled_at ?? undefined,
  parentId: body.parent ?? undefined,
  balance: {
    remaining: BigInt(body.balance.remaining_nanodollars),
    included: BigInt(body.balance.included_nanodollars),
    allowanceRemaining: BigInt(body.balance.allowance_remaining_nanodollars),
    creditsRemaining: BigInt(body.balance.credits_remaining_nanodollars),
  },
  held: BigInt(body.held_nanodollars),
});

export const keySchema = z
  .object({
    id: z.string(),
    account: z.string().describe('Id of the account.'),
    label: z.string().nullable(),
    last4: z.string(),
    cap_nanodollars: z.int().nullable(),
    spent_nanodollars: z.int(),
    held_nanodollars: z.int(),
    models: z.array(z.string()).nullable().describe('The only models that the key may use; null: all.'),
    requests_per_minute: z.int().nullable().describe('null: as the configuration says.'),
    tokens_per_minute: z.int().nullable(),
    concurrency: z.int().nullable(),
    created_at: time,
    expires_at: time.nullable(),
    revoked_at: time.nullable(),
    disabled_at: time.nullable(),
  })
  .meta({ id: 'Key' });

export const toKeyBody = (row: ShownKey): z.infer<typeof keySchema> => ({
  id: row.id,
  account: row.accountId,
  label: row.label ?? null,
  last4: row.last4,
  cap_nanodollars: row.cap === undefined ? null : nanodollarsToJson(row.cap),
  spent_nanodollars: nanodollarsToJson(row.spent),
  held_nanodollars: nanodollarsToJson(row.held),
  models: row.models ? [...row.models] : null,
  requests_per_minute: row.requestsPerMinute ?? null,
  tokens_per_minute: row.tokensPerMinute ?? null,
  concurrency: row.concurrency ?? null,
  created_at: row.createdAt,
  expires_at: row.expiresAt ?? null,
  revoked_at: row.revokedAt ?? null,
  disabled_at: row.disabledAt ?? null,
});

export const fromKeyBody = (body: z.infer<typeof keySchema>): ShownKey => ({
  id: body.id,
  accountId: body.account,
  label: body.label ?? undefined,
  last4: body.last4,
  cap: body.cap_nanodollars === null ? undefined : BigInt(body.cap_nanodollars),
  spent: BigInt(body.spent_nanodollars),
  held: BigInt(body.held_nanodollars),
  models: body.models ?? undefined,
  createdAt: body.created_at,
  expiresAt: body.expires_at ?? undefined,
  revokedAt: body.revoked_at ?? undefined,
  disabledAt: body.disabled_at ?? undefined,
  concurrency: body.concurrency ?? undefined,
  requestsPerMinute: body.requests_per_minute ?? undefined,
  tokensPerMinute: body.tokens_per_minute ?? undefined,
});

export const changeSchema = z
  .object({
    id: z.string(),
    at: time,
    actor: z
      .string()
      .describe('Who made the change: `admin:NAME` through this API, `user@host` by a command.'),
    account: z.string().nullable().describe('Id of the account; null: a change of the gateway itself.'),
    subject: z.string().describe('Id of what was changed.'),
    action: z.string().describe('Such as `key update`.'),
    before: z.record(z.string(), z.unknown()).nullable(),
    after: z.record(z.string(), z.unknown()).nullable(),
  })
  .meta({ id: 'Change' });

export const toChangeBody = ({
  accountId,
  before,
  after,
  ...row
}: ChangeRow): z.infer<typeof changeSchema> => ({
  ...row,
  account: accountId ?? null,
  before: before ?? null,
  after: after ?? null,
});

export const fromChangeBody = ({
  account,
  before,
  after,
  ...row
}: z.infer<typeof changeSchema>): ChangeRow => ({
  ...row,
  accountId: account ?? undefined,
  before: before ?? undefined,
  after: after ?? undefined,
});

export const budgetSchema = z
  .object({
    id: z.string(),
    owner: z.enum(['key', 'account']),
    owner_id: z.string(),
    account: z.string().describe('Id of the account, or of that of the key.'),
    period: z.string().describe('`day`, `week`, `month`, or hours or days such as `12h` and `30d`.'),
    time_zone: z.string().nullable(),
    amount_nanodollars: z.int(),
    spent_nanodollars: z.int(),
    held_nanodollars: z.int(),
    resets_at: time.nullable().describe('null: nothing is spent in a rolling period.'),
  })
  .meta({ id: 'Budget' });

export const toBudgetBody = (budget: Budget): z.infer<typeof budgetSchema> => ({
  id: budget.id,
  owner: budget.owner.kind,
  owner_id: budget.owner.id,
  account: budget.accountId,
  period: budget.period,
  time_zone: budget.timeZone ?? null,
  amount_nanodollars: nanodollarsToJson(budget.amount),
  spent_nanodollars: nanodollarsToJson(budget.spent),
  held_nanodollars: nanodollarsToJson(budget.held),
  resets_at: budget.resetsAt ?? null,
});

export const fromBudgetBody = (body: z.infer<typeof budgetSchema>): Budget => ({
  id: body.id,
  owner: { kind: body.owner, id: body.owner_id },
  accountId: body.account,
  period: body.period,
  timeZone: body.time_zone ?? undefined,
  amount: BigInt(body.amount_nanodollars),
  spent: BigInt(body.spent_nanodollars),
  held: BigInt(body.held_nanodollars),
  resetsAt: body.resets_at ?? undefined,
});
