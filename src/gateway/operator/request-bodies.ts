/** JSON of requests as operators see them. */
import { z } from 'zod';
import { nanodollarsToJson } from '../catalog/bodies.ts';
import type { RequestRecord, RequestRow } from '../ledger/types.ts';
import { receiptSchema, toReceiptBody } from '../serve/receipt-body.ts';

const time = z.string().describe('RFC 3339, in UTC.');
const nanodollars = z.int();

export const listedRequestSchema = z
  .object({
    request_id: z.string(),
    account: z.string().describe('Id of the account.'),
    key: z.string().describe('Id of the key.'),
    state: z.string().describe('settled, released, refused or crash, as in a receipt.'),
    status: z.int().nullable(),
    outcome: z.string().nullable().describe('completed, failed, client_gone or cut; null after a crash.'),
    reason: z.string().nullable(),
    wire: z.string(),
    stream: z.boolean(),
    requested_model: z.string(),
    effective_model: z.string(),
    provider: z.string(),
    tag: z.string().nullable(),
    charged_nanodollars: nanodollars,
    started_at: time,
    ended_at: time,
    total_ms: z.int().nullable(),
  })
  .meta({ id: 'ListedRequest' });

export const toListedRequestBody = (row: RequestRow): z.infer<typeof listedRequestSchema> => ({
  request_id: row.id,
  account: row.account_id,
  key: row.key_id,
  state: row.ended,
  status: row.status === null ? null : Number(row.status),
  outcome: row.outcome,
  reason: row.reason,
  wire: row.wire,
  stream: row.stream !== 0n,
  requested_model: row.requested_model,
  effective_model: row.effective_model,
  provider: row.provider,
  tag: row.tag || null,
  charged_nanodollars: nanodollarsToJson(row.charged),
  started_at: row.reserved_at,
  ended_at: row.ended_at,
  total_ms: row.total_ms === null ? null : Number(row.total_ms),
});

export const requestRecordSchema = z
  .object({
    request_id: z.string(),
    state: z.string().describe('running, or as in a receipt: settled, released, refused or crash.'),
    account: z.string().describe('Id of the account.'),
    key: z.string().describe('Id of the key.'),
    requested_model: z.string(),
    effective_model: z.string(),
    provider: z.string().describe('While it runs, the first one that it was sent to.'),
    hold: z
      .object({
        placed_at: time,
        amount_nanodollars: nanodollars.describe('The most that the request could cost.'),
        estimate_nanodollars: nanodollars.describe('What is charged if its gateway dies.'),
        gateway: z.string().describe('Id of the gateway process that placed it.'),
      })
      .nullable()
      .describe('null: it was refused before money was held.'),
    cost_nanodollars: nanodollars.nullable().describe('At the prices of the provider; null while it runs.'),
    overrun_nanodollars: nanodollars
      .nullable()
      .describe('The part of the cost above the hold, which the operator pays.'),
    entries: z
      .array(
        z.object({
          at: time,
          kind: z.string(),
          account: z.string().describe('Id of the account; `revenue` and `house` are those of the operator.'),
          amount_nanodollars: nanodollars,
        }),
      )
      .describe('What it moved between accounts; the sum is zero.'),
    receipt: receiptSchema.nullable().describe('As the caller gets it; null while it runs.'),
  })
  .meta({ id: 'RequestRecord' });

/** @throws Error when there is neither a hold nor a row */
export function toRequestRecordBody({
  hold,
  row,
  entries,
}: RequestRecord): z.infer<typeof requestRecordSchema> {
  const request = hold ?? row;
  if (!request) throw new Error('a request has a hold or a row');
  return {
    request_id: hold ? hold.request_id : (row?.id ?? ''),
    state: row?.ended ?? 'running',
    account: request.account_id,
    key: request.key_id,
    requested_model: request.requested_model,
    effective_model: request.effective_model,
    provider: request.provider,
    hold:
      row?.ended === 'refused'
        ? null
        : {
            placed_at: request.reserved_at,
            amount_nanodollars: nanodollarsToJson(request.amount),
            estimate_nanodollars: nanodollarsToJson(request.estimate),
            gateway: request.replica_id,
          },
    cost_nanodollars: row ? nanodollarsToJson(row.cost) : null,
    overrun_nanodollars: row ? nanodollarsToJson(row.overrun) : null,
    entries: entries.map(({ at, kind, accountId, amount }) => ({
      at,
      kind,
      account: accountId,
      amount_nanodollars: nanodollarsToJson(amount),
    })),
    receipt: row ? toReceiptBody(row) : null,
  };
}
