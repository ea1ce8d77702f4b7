import { z } from 'zod';
import type { Budget, NewBudget } from '../budgets/types.ts';
import {
  accountSchema,
  budgetSchema,
  changeSchema,
  fromAccountBody,
  fromBudgetBody,
  fromChangeBody,
  fromKeyBody,
  keySchema,
} from '../ledger/bodies.ts';
import { toUsd } from '../ledger/money.ts';
import type {
  AccountChanges,
  AccountRow,
  ChangeRow,
  KeyChanges,
  Nano,
  NewKey,
  ShownKey,
} from '../ledger/types.ts';
import { fromUsageBody, usageSchema } from '../usage/bodies.ts';
import type { UsageLine, UsageQuery } from '../usage/report.ts';
import { type AdminApi, listSchema, pathOf, queryOf } from './admin-api.ts';
import type { OperatorLedger } from './types.ts';

const newKeySchema = keySchema.extend({ key: z.string() });
const modelsSchema = z.object({
  data: z.array(z.object({ id: z.string() })),
  aliases: z.record(z.string(), z.string()),
});

/** The ledger of a running gateway, by its admin API. */
export class AdminLedger implements OperatorLedger {
  readonly #api: AdminApi;

  constructor(api: AdminApi) {
    this.#api = api;
  }

  async accounts(): Promise<AccountRow[]> {
    const { data } = await this.#api.send(listSchema(accountSchema), 'GET', '/accounts');
    return data.map(fromAccountBody);
  }

  async createAccount(
    name: string,
    { credit, included, parent }: { credit?: Nano; included?: Nano; parent?: string | null },
  ): Promise<AccountRow> {
    const body = {
      name,
      ...(credit === undefined ? {} : { credit_usd: toUsd(credit) }),
      ...(included === undefined ? {} : { included_usd: toUsd(included) }),
      ...(typeof parent === 'string' ? { parent } : {}),
    };
    return fromAccountBody(await this.#api.send(accountSchema, 'POST', '/accounts', body));
  }

  async credit(account: string, amount: Nano, note?: string): Promise<AccountRow> {
    const body = { usd: toUsd(amount), ...(note === undefined ? {} : { note }) };
    return fromAccountBody(
      await this.#api.send(accountSchema, 'POST', `${pathOf('accounts', account)}/credits`, body),
    );
  }

  async updateAccount(account: string, changes: AccountChanges): Promise<AccountRow> {
    return fromAccountBody(
      await this.#api.send(accountSchema, 'PATCH', pathOf('accounts', account), changes),
    );
  }

  async setAccountDisabled(account: string, disabled: boolean): Promise<AccountRow> {
    return fromAccountBody(
      await this.#api.send(accountSchema, 'PATCH', pathOf('accounts', account), { disabled }),
    );
  }

  async createKey({ account, ...settings }: NewKey): Promise<{ row: ShownKey; secret: string }> {
    const { key, ...body } = await this.#api.send(newKeySchema, 'POST', '/keys', {
      account,
      ...toKeySettings(settings),
    });
    return { row: fromKeyBody(body), secret: key };
  }

  async updateKey(id: string, changes: KeyChanges): Promise<ShownKey> {
    return fromKeyBody(await this.#api.send(keySchema, 'PATCH', pathOf('keys', id), toKeySettings(changes)));
  }

  async setKeyDisabled(id: string, disabled: boolean): Promise<ShownKey> {
    return fromKeyBody(await this.#api.send(keySchema, 'PATCH', pathOf('keys', id), { disabled }));
  }

  async revokeKey(id: string): Promise<ShownKey> {
    return fromKeyBody(await this.#api.send(keySchema, 'DELETE', pathOf('keys', id)));
  }

  async keys(account?: string): Promise<ShownKey[]> {
    const { data } = await this.#api.send(listSchema(keySchema), 'GET', `/keys${queryOf({ account })}`);
    return data.map(fromKeyBody);
  }

  async setBudget({ owner, period, amount, timeZone }: NewBudget): Promise<Budget> {
    const body = {
      [owner.kind]: owner.id,
      per: period,
      usd: toUsd(amount),
      ...(timeZone === undefined ? {} : { time_zone: timeZone }),
    };
    return fromBudgetBody(await this.#api.send(budgetSchema, 'POST', '/budgets', body));
  }

  async removeBudget(id: string): Promise<Budget> {
    return fromBudgetBody(await this.#api.send(budgetSchema, 'DELETE', pathOf('budgets', id)));
  }

  async budgets(account?: string): Promise<Budget[]> {
    const { data } = await this.#api.send(listSchema(budgetSchema), 'GET', `/budgets${queryOf({ account })}`);
    return data.map(fromBudgetBody);
  }

  async usage({ by, since, until, accountId, withDescendants }: UsageQuery): Promise<UsageLine[]> {
    const descendants = withDescendants ? 'true' : undefined;
    const query = queryOf({ by: by.join(','), since, until, account: accountId, descendants });
    return fromUsageBody(await this.#api.send(usageSchema, 'GET', `/usage${query}`));
  }

  async changes(account: string | undefined, limit: number): Promise<ChangeRow[]> {
    const query = queryOf({ account, limit: String(limit) });
    const { data } = await this.#api.send(listSchema(changeSchema), 'GET', `/changes${query}`);
    return data.map(fromChangeBody);
  }

  async modelNames(): Promise<readonly string[]> {
    const { data, aliases } = await this.#api.send(modelsSchema, 'GET', '/models');
    return [...data.map(({ id }) => id), ...Object.keys(aliases)];
  }
}

const toKeySettings = ({
  label,
  cap,
  expiresAt,
  models,
  concurrency,
  requestsPerMinute,
  tokensPerMinute,
}: KeyChanges) => ({
  // Members that are undefined are not in the JSON.
  label,
  cap_usd: typeof cap === 'bigint' ? toUsd(cap) : cap,
  expires_at: expiresAt,
  models,
  concurrency,
  requests_per_minute: requestsPerMinute,
  tokens_per_minute: tokensPerMinute,
});
