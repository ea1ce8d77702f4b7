import { z } from 'zod';
import { HostError } from '../../host-client/errors.ts';
import { type HostAddress, type HostHints, type HostRequest, sendRequest } from '../../host-client/http.ts';
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
import { LedgerError, ledgerErrorCodes } from '../ledger/errors.ts';
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
import type { OperatorLedger } from './types.ts';

const adminPrefix = '/admin/v1';
const hints: HostHints = {
  token: "--admin-token-file FILE or LATHE_GATEWAY_ADMIN_TOKEN names the operator's token",
  start: '--admin-url names the operator listener of a gateway, which `serve` opens with --admin-port',
  server: "gateway's operator listener",
  unavailable: (_, message) => message,
};
const listSchema = <Schema extends z.ZodType>(schema: Schema) => z.object({ data: z.array(schema) });
const newKeySchema = keySchema.extend({ key: z.string() });
const modelsSchema = z.object({
  data: z.array(z.object({ id: z.string() })),
  aliases: z.record(z.string(), z.string()),
});

/**
 * The ledger of a running gateway, by its admin API. Refusals of the ledger reject with `LedgerError`, as those of the
 * database do; everything else with `HostError`.
 */
export class AdminLedger implements OperatorLedger {
  readonly #address: HostAddress;

  constructor(address: HostAddress) {
    this.#address = address;
  }

  async accounts(): Promise<AccountRow[]> {
    const { data } = await this.#send(listSchema(accountSchema), 'GET', '/accounts');
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
    return fromAccountBody(await this.#send(accountSchema, 'POST', '/accounts', body));
  }

  async credit(account: string, amount: Nano, note?: string): Promise<AccountRow> {
    const body = { usd: toUsd(amount), ...(note === undefined ? {} : { note }) };
    return fromAccountBody(
      await this.#send(accountSchema, 'POST', `${pathOf('accounts', account)}/credits`, body),
    );
  }

  async updateAccount(account: string, changes: AccountChanges): Promise<AccountRow> {
    return fromAccountBody(await this.#send(accountSchema, 'PATCH', pathOf('accounts', account), changes));
  }

  async setAccountDisabled(account: string, disabled: boolean): Promise<AccountRow> {
    return fromAccountBody(
      await this.#send(accountSchema, 'PATCH', pathOf('accounts', account), { disabled }),
    );
  }

  async createKey({ account, ...settings }: NewKey): Promise<{ row: ShownKey; secret: string }> {
    const { key, ...body } = await this.#send(newKeySchema, 'POST', '/keys', {
      account,
      ...toKeySettings(settings),
    });
    return { row: fromKeyBody(body), secret: key };
  }

  async updateKey(id: string, changes: KeyChanges): Promise<ShownKey> {
    return fromKeyBody(await this.#send(keySchema, 'PATCH', pathOf('keys', id), toKeySettings(changes)));
  }

  async setKeyDisabled(id: string, disabled: boolean): Promise<ShownKey> {
    return fromKeyBody(await this.#send(keySchema, 'PATCH', pathOf('keys', id), { disabled }));
  }

  async revokeKey(id: string): Promise<ShownKey> {
    return fromKeyBody(await this.#send(keySchema, 'DELETE', pathOf('keys', id)));
  }

  async keys(account?: string): Promise<ShownKey[]> {
    const { data } = await this.#send(listSchema(keySchema), 'GET', `/keys${queryOf({ account })}`);
    return data.map(fromKeyBody);
  }

  async setBudget({ owner, period, amount, timeZone }: NewBudget): Promise<Budget> {
    const body = {
      [owner.kind]: owner.id,
      per: period,
      usd: toUsd(amount),
      ...(timeZone === undefined ? {} : { time_zone: timeZone }),
    };
    return fromBudgetBody(await this.#send(budgetSchema, 'POST', '/budgets', body));
  }

  async removeBudget(id: string): Promise<Budget> {
    return fromBudgetBody(await this.#send(budgetSchema, 'DELETE', pathOf('budgets', id)));
  }

  async budgets(account?: string): Promise<Budget[]> {
    const { data } = await this.#send(listSchema(budgetSchema), 'GET', `/budgets${queryOf({ account })}`);
    return data.map(fromBudgetBody);
  }

  async usage({ by, since, until, accountId, withDescendants }: UsageQuery): Promise<UsageLine[]> {
    const descendants = withDescendants ? 'true' : undefined;
    const query = queryOf({ by: by.join(','), since, until, account: accountId, descendants });
    return fromUsageBody(await this.#send(usageSchema, 'GET', `/usage${query}`));
  }

  async changes(account: string | undefined, limit: number): Promise<ChangeRow[]> {
    const query = queryOf({ account, limit: String(limit) });
    const { data } = await this.#send(listSchema(changeSchema), 'GET', `/changes${query}`);
    return data.map(fromChangeBody);
  }

  async modelNames(): Promise<readonly string[]> {
    const { data, aliases } = await this.#send(modelsSchema, 'GET', '/models');
    return [...data.map(({ id }) => id), ...Object.keys(aliases)];
  }

  async #send<Schema extends z.ZodType>(
    schema: Schema,
    method: HostRequest['method'],
    path: string,
    body?: unknown,
  ): Promise<z.infer<Schema>> {
    let text: string;
    try {
      const request = { method, path: `${adminPrefix}${path}`, body, hasTimeout: true };
      text = await sendRequest(this.#address, hints, request);
    } catch (error) {
      const code = error instanceof HostError && ledgerErrorCodes.find((one) => one === error.code);
      if (code) throw new LedgerError(code, error.message);
      throw error;
    }
    const { success, data } = schema.safeParse(parseJson(text));
    if (success) return data;
    throw new HostError(
      'not_a_host',
      `the answer of ${this.#address.url} to ${method} ${adminPrefix}${path} is not that of a gateway of this version`,
    );
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

const pathOf = (noun: string, id: string): string => `/${noun}/${encodeURIComponent(id)}`;

function queryOf(parameters: Readonly<Record<string, string | undefined>>): string {
  const given = Object.entries(parameters).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, value]],
  );
  return given.length === 0 ? '' : `?${new URLSearchParams(given).toString()}`;
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
