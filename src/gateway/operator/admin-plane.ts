import type { z } from 'zod';
import { hostEnvelope, HttpError, type Violation } from '../../http/error.ts';
import { defineRoute, type Plane, type Route } from '../../http/route.ts';
import { invalidBodyError } from '../../http/violations.ts';
import { didYouMean } from '../../words/nearest.ts';
import { WireError } from '../../wires/core/error.ts';
import { parsePeriod } from '../budgets/period.ts';
import { runAs } from '../ledger/actor.ts';
import {
  accountSchema,
  budgetSchema,
  changeSchema,
  keySchema,
  toAccountBody,
  toBudgetBody,
  toChangeBody,
  toKeyBody,
} from '../ledger/bodies.ts';
import { LedgerError, type LedgerErrorCode } from '../ledger/errors.ts';
import { maxChanges } from '../ledger/change-log.ts';
import type { AccountRow, KeyChanges } from '../ledger/types.ts';
import type { Gateway } from '../open.ts';
import { usageSchema, toUsageBody } from '../usage/bodies.ts';
import { maxUsageLines, parseUsageQuery, tooManyLines, usageParameters } from '../usage/parameters.ts';
import {
  budgetBody,
  changeAccountBody,
  changeKeyBody,
  clearedCacheSchema,
  createAccountBody,
  createKeyBody,
  creditBody,
  listOf,
  newKeySchema,
  operatorErrorSchema,
} from './admin-schemas.ts';
import { adminPrefix, answers, refusal } from './admin-answers.ts';
import { gatewayRoutes } from './gateway-routes.ts';
import { providerRoutes } from './provider-routes.ts';
import { requestRoutes } from './request-routes.ts';

type AdminGateway = Pick<Gateway, 'admin' | 'reload' | 'state'>;

const statuses: Readonly<Record<LedgerErrorCode, number>> = {
  unknown_account: 404,
  unknown_key: 404,
  unknown_budget: 404,
  unknown_request: 404,
  account_exists: 409,
  balance_too_low: 409,
  archive_exists: 409,
  archive_missing: 409,
  invalid: 400,
};
const notFound = { 404: refusal('No such account, key or budget.') };

/** What operators do: accounts, keys, usage, configuration. Every change is logged under the operator's name. */
export function createAdminPlane(gateway: AdminGateway): Plane {
  const { ledger } = gateway.admin;
  const findAccount = (idOrName: string): Promise<AccountRow> => ledger.account(idOrName);
  const accountIdIn = async (query: URLSearchParams) => {
    const account = query.get('account');
    return account === null ? undefined : (await findAccount(account)).id;
  };
  const accountParam = { account: 'Id or name of an account; default: all.' };
  const routes = [
    ...gatewayRoutes(gateway),
    ...providerRoutes(gateway.admin),
    ...requestRoutes(ledger),
    defineRoute({
      method: 'DELETE',
      path: `${adminPrefix}/cache`,
      operationId: 'clearCache',
      summary: 'Remove stored answers',
      query: accountParam,
      responses: answers(clearedCacheSchema, { 404: refusal('No such account.') }),
      handle: async ({ query }) =>
        Response.json({ removed: await gateway.admin.clearCache(await accountIdIn(query)) }),
    }),
    defineRoute({
      method: 'GET',
      path: `${adminPrefix}/accounts`,
      operationId: 'listAccounts',
      summary: 'Accounts and their balances',
      responses: answers(listOf(accountSchema, 'AccountList')),
      handle: async () => Response.json({ data: (await ledger.accounts()).map(toAccountBody) }),
    }),
    defineRoute({
      method: 'POST',
      path: `${adminPrefix}/accounts`,
      operationId: 'createAccount',
      summary: 'Create an account',
      body: createAccountBody,
      responses: answers(accountSchema, { 409: refusal('There is an account of this name.') }),
      async handle({ body }) {
        const { credit_usd: credit, included_usd: included } = body;
        const row = await ledger.createAccount(body.name, {
          ...(credit === undefined ? {} : { credit }),
          ...(included === undefined ? {} : { included }),
          ...(body.parent === undefined ? {} : { parent: (await findAccount(body.parent)).id }),
        });
        return Response.json(toAccountBody(row));
      },
    }),
    defineRoute({
      method: 'PATCH',
      path: `${adminPrefix}/accounts/{account}`,
      operationId: 'changeAccount',
      summary: 'Rename, move, disable or enable an account',
      params: { account: 'Id or name.' },
      body: changeAccountBody,
      responses: answers(accountSchema, notFound),
      async handle({ body, params }) {
        if (Object.keys(body).length === 0)
          throw invalidBodyError([{ path: '', message: 'expected at least one member' }]);
        let row = await findAccount(params['account'] ?? '');
        const parent = typeof body.parent === 'string' ? (await findAccount(body.parent)).id : body.parent;
        if (body.name !== undefined || parent !== undefined)
          row = await ledger.updateAccount(row.id, {
            ...(body.name === undefined ? {} : { name: body.name }),
            ...(parent === undefined ? {} : { parent }),
          });
        if (body.disabled !== undefined) row = await ledger.setAccountDisabled(row.id, body.disabled);
        return Response.json(toAccountBody(row));
      },
    }),
    defineRoute({
      method: 'POST',
      path: `${adminPrefix}/accounts/{account}/credits`,
      operationId: 'creditAccount',
      summary: 'Add credits to an account',
      description: 'Not idempotent: look at the balance before you repeat a request whose answer was lost.',
      params: { account: 'Id or name.' },
      body: creditBody,
      responses: answers(accountSchema, { ...notFound, 409: refusal('The free balance is lower.') }),
      async handle({ body, params }) {
        const { id } = await findAccount(params['account'] ?? '');
        return Response.json(toAccountBody(await ledger.credit(id, body.usd, body.note)));
      },
    }),
    defineRoute({
      method: 'GET',
      path: `${adminPrefix}/keys`,
      operationId: 'listKeys',
      summary: 'Keys, without their secrets',
      query: accountParam,
      responses: answers(listOf(keySchema, 'KeyList'), notFound),
      handle: async ({ query }) =>
        Response.json({ data: (await ledger.keys(await accountIdIn(query))).map(toKeyBody) }),
    }),
    defineRoute({
      method: 'POST',
      path: `${adminPrefix}/keys`,
      operationId: 'createKey',
      summary: 'Create a key; its secret is in this answer only',
      body: createKeyBody,
      responses: answers(newKeySchema, notFound),
      async handle({ body }) {
        const { id } = await findAccount(body.account);
        const { row, secret } = await ledger.createKey({ account: id, ...toChanges(body) });
        return Response.json({ ...toKeyBody(row), key: secret });
      },
    }),
    defineRoute({
      method: 'PATCH',
      path: `${adminPrefix}/keys/{key}`,
      operationId: 'changeKey',
      summary: 'Change, disable or enable a key; running gateways observe it at once',
      params: { key: 'Id of the key.' },
      body: changeKeyBody,
      responses: answers(keySchema, notFound),
      async handle({ body, params }) {
        const id = params['key'] ?? '';
        const changes = toChanges(body);
        if (Object.keys(changes).length === 0 && body.disabled === undefined)
          throw invalidBodyError([{ path: '', message: 'expected at least one member' }]);
        const changed = Object.keys(changes).length === 0 ? undefined : await ledger.updateKey(id, changes);
        const row = body.disabled === undefined ? changed : await ledger.setKeyDisabled(id, body.disabled);
        return Response.json(row ? toKeyBody(row) : {});
      },
    }),
    defineRoute({
      method: 'DELETE',
      path: `${adminPrefix}/keys/{key}`,
      operationId: 'revokeKey',
      summary: 'Revoke a key for good',
      params: { key: 'Id of the key.' },
      responses: answers(keySchema, notFound),
      handle: async ({ params }) => Response.json(toKeyBody(await ledger.revokeKey(params['key'] ?? ''))),
    }),
    defineRoute({
      method: 'GET',
      path: `${adminPrefix}/budgets`,
      operationId: 'listBudgets',
      summary: 'Budgets, and what is spent of them',
      query: accountParam,
      responses: answers(listOf(budgetSchema, 'BudgetList'), notFound),
      handle: async ({ query }) =>
        Response.json({ data: (await ledger.budgets(await accountIdIn(query))).map(toBudgetBody) }),
    }),
    defineRoute({
      method: 'POST',
      path: `${adminPrefix}/budgets`,
      operationId: 'setBudget',
      summary: 'Set or change what a key, or an account with those below it, may spend in a period',
      body: budgetBody,
      responses: answers(budgetSchema, notFound),
      async handle({ body }) {
        const { key, account, time_zone: timeZone } = body;
        const violations: Violation[] = [];
        if ((key === undefined) === (account === undefined))
          violations.push({ path: 'key', message: 'expected either `key` or `account`' });
        try {
          parsePeriod(body.per, timeZone);
        } catch (error) {
          // Each member is valid on its own.
          if (!(error instanceof RangeError)) throw error;
          violations.push({ path: 'time_zone', message: error.message });
        }
        if (violations.length > 0) throw invalidBodyError(violations);
        const owner =
          key === undefined
            ? ({ kind: 'account', id: (await findAccount(account ?? '')).id } as const)
            : ({ kind: 'key', id: key } as const);
        const budget = await ledger.setBudget({
          owner,
          period: body.per,
          amount: body.usd,
          ...(timeZone === undefined ? {} : { timeZone }),
        });
        return Response.json(toBudgetBody(budget));
      },
    }),
    defineRoute({
      method: 'DELETE',
      path: `${adminPrefix}/budgets/{budget}`,
      operationId: 'removeBudget',
      summary: 'Remove a budget',
      params: { budget: 'Id of the budget.' },
      responses: answers(budgetSchema, notFound),
      handle: async ({ params }) =>
        Response.json(toBudgetBody(await ledger.removeBudget(params['budget'] ?? ''))),
    }),
    defineRoute({
      method: 'GET',
      path: `${adminPrefix}/usage`,
      operationId: 'getUsage',
      summary: 'Requests, tokens and spend of all keys',
      query: {
        ...usageParameters,
        ...accountParam,
        descendants:
          'With `account`: `true` for also the accounts below it. Default: false, that account alone.',
      },
      responses: answers(usageSchema, notFound),
      async handle({ query: parameters }) {
        readDescendants(parameters);
        const accountId = await accountIdIn(parameters);
        const rest = new URLSearchParams(parameters);
        rest.delete('account');
        rest.delete('descendants');
        const query = parseUsageQuery(rest, new Date());
        const account = accountId ? { accountId, withDescendants: readDescendants(parameters) } : {};
        const lines = await ledger.usage({ ...query, ...account }, maxUsageLines);
        if (!lines) throw tooManyLines();
        return Response.json(toUsageBody(query, lines));
      },
    }),
    defineRoute({
      method: 'GET',
      path: `${adminPrefix}/changes`,
      operationId: 'listChanges',
      summary: 'Who changed which account or key, the newest first',
      query: { ...accountParam, limit: `How many, 1 to ${maxChanges}. Default 50.` },
      responses: answers(listOf(changeSchema, 'ChangeList'), notFound),
      async handle({ query }) {
        const text = query.get('limit') ?? '50';
        const limit = /^\d{1,5}$/.test(text) ? Number(text) : 0;
        if (limit < 1 || limit > maxChanges)
          throw invalidBodyError([
            { path: 'limit', message: `expected a whole number from 1 to ${maxChanges}, got '${text}'` },
          ]);
        return Response.json({
          data: (await ledger.changes(await accountIdIn(query), limit)).map(toChangeBody),
        });
      },
    }),
  ];
  return {
    name: 'admin',
    summary: 'Accounts, keys, usage and configuration, for operators with a token.',
    prefixes: [adminPrefix],
    gate: 'bearer',
    envelope: hostEnvelope,
    errorSchema: operatorErrorSchema,
    routes: routes.map(asOperator),
  };
}

/** Changes are logged under the caller's name, and refusals of the ledger become HTTP errors. */
const asOperator = (route: Route): Route => ({
  ...route,
  async handle(request) {
    refuseUnknownParameters(request.query, Object.keys(route.query ?? {}));
    try {
      return await runAs(request.by, () => route.handle(request));
    } catch (error) {
      if (error instanceof LedgerError) throw new HttpError(statuses[error.code], error.code, error.message);
      if (error instanceof WireError)
        throw new HttpError(
          error.status,
          error.code ?? 'invalid_value',
          error.message,
          error.violations ? { violations: error.violations } : {},
        );
      throw error;
    }
  },
});

/** @throws HttpError */
function readDescendants(query: URLSearchParams): boolean {
  const text = query.get('descendants') ?? 'false';
  const violations: Violation[] = [];
  if (text !== 'true' && text !== 'false')
    violations.push({ path: 'descendants', message: `expected true or false, got '${text.slice(0, 60)}'` });
  if (text === 'true' && query.get('account') === null)
    violations.push({ path: 'descendants', message: 'expected only with `account`' });
  if (violations.length > 0) throw invalidBodyError(violations);
  return text === 'true';
}

/** A misspelt parameter would widen the result. */
function refuseUnknownParameters(query: URLSearchParams, known: readonly string[]): void {
  const violations = [...new Set(query.keys())]
    .filter((key) => !known.includes(key))
    .map((key) => ({
      path: key.slice(0, 100),
      message: `unknown parameter${didYouMean(key, known, (near) => `'${near}'`)}; ${known.length === 0 ? 'there is none' : `there are: ${known.join(', ')}`}`,
    }));
  if (violations.length > 0) throw invalidBodyError(violations);
}

function toChanges({
  label,
  cap_usd: cap,
  expires_at: expiresAt,
  models,
  requests_per_minute: requestsPerMinute,
  tokens_per_minute: tokensPerMinute,
  concurrency,
}: Partial<z.infer<typeof changeKeyBody>>): KeyChanges {
  return {
    ...(label === undefined ? {} : { label }),
    ...(cap === undefined ? {} : { cap }),
    ...(expiresAt === undefined
      ? {}
      : { expiresAt: expiresAt === null ? null : new Date(expiresAt).toISOString() }),
    ...(models === undefined ? {} : { models }),
    ...(requestsPerMinute === undefined ? {} : { requestsPerMinute }),
    ...(tokensPerMinute === undefined ? {} : { tokensPerMinute }),
    ...(concurrency === undefined ? {} : { concurrency }),
  };
}
