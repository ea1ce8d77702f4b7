/** Response body of a receipt that is asked for by the id of its request. */
import { z } from 'zod';
import { nanodollarsToJson } from '../catalog/bodies.ts';
import type { RequestDetails, RequestRow } from '../ledger/types.ts';
import type { CostLine } from '../../wires/core/types.ts';
import { statedComponents } from '../../wires/core/stream-receipt.ts';
import { capCost } from './receipt.ts';

const ms = z.int().nullable().describe('Measured from the arrival of the request.');

export const receiptSchema = z
  .object({
    object: z.literal('receipt'),
    request_id: z.string(),
    state: z
      .string()
      .describe(
        'settled; released: the request failed and was free; refused: it was not sent to a provider; crash: the gateway died, and the cost is an estimate.',
      ),
    status: z.int().nullable(),
    outcome: z.string().nullable().describe('completed, failed, client_gone or cut.'),
    wire: z.string(),
    stream: z.boolean(),
    requested_model: z.string(),
    effective_model: z.string(),
    provider: z.string(),
    endpoint: z.string().nullable().describe('credits, or byok:PROVIDER.'),
    reason: z
      .string()
      .nullable()
      .describe('as_requested, routed, provider_failover, or cached: a stored answer.'),
    pricing_identity: z.string().nullable(),
    tag: z.string().nullable().describe('The end user that the request named.'),
    cost_nanousd: z.int().describe('What the account paid.'),
    components: z.object({
      fresh: z.int(),
      cache_write: z.int(),
      cache_read: z.int(),
      output: z.int(),
      tools: z.int().optional().describe('Calls of tools that the provider ran.'),
      hedge: z.int().optional().describe('The attempt of a hedged request that did not answer.'),
    }),
    lines: z
      .array(z.object({ item: z.string(), quantity: z.int(), cost_nanousd: z.int() }))
      .describe(
        'What has a price of its own: tokens of audio and images, which are part of fresh and output, and calls of tools.',
      ),
    attempts: z
      .array(
        z.object({
          provider: z.string(),
          outcome: z.string().describe('answered, failed or aborted.'),
          cost_nanousd: z.int(),
        }),
      )
      .optional()
      .describe('The two attempts of a hedged request. An aborted one costs an estimate of its input.'),
    service_tier: z.string().describe('The tier whose prices apply.'),
    usage: z
      .object({
        prompt_tokens: z.int().describe('All input tokens.'),
        cached_tokens: z.int(),
        cache_write_tokens: z.int(),
        completion_tokens: z.int(),
        reasoning_tokens: z.int().nullable(),
      })
      .nullable(),
    started_at: z.string(),
    ended_at: z.string(),
    first_byte_ms: ms,
    total_ms: ms,
  })
  .meta({ id: 'Receipt' });

export function toReceiptBody(row: RequestRow): z.infer<typeof receiptSchema> {
  const { tier = 'default', lines = [], attempts } = readDetails(row);
  const cost = {
    total: row.cost,
    components: {
      fresh: row.cost_fresh,
      cache_write: row.cost_cache_write,
      cache_read: row.cost_cache_read,
      output: row.cost_output,
      tools: row.cost_tools,
      hedge: row.cost_hedge,
    },
    lines: lines.map((line) => ({ ...line, cost: BigInt(line.cost) }) as CostLine),
  };
  const paid = capCost(cost, row.charged);
  const { tokens_fresh: fresh } = row;
  const written = Number(row.tokens_cache_write) + Number(row.tokens_cache_write_1h);
  const cached = Number(row.tokens_cache_read);
  return {
    object: 'receipt',
    request_id: row.id,
    state: row.ended,
    status: toNumber(row.status),
    outcome: row.outcome,
    wire: row.wire,
    stream: row.stream !== 0n,
    requested_model: row.requested_model,
    effective_model: row.effective_model,
    provider: row.provider,
    endpoint: row.endpoint,
    reason: row.reason,
    pricing_identity: row.pricing_identity,
    tag: row.tag || null,
    cost_nanousd: nanodollarsToJson(row.charged),
    components: Object.fromEntries(
      statedComponents(paid).map(([name, amount]) => [name, nanodollarsToJson(amount)]),
    ) as z.infer<typeof receiptSchema>['components'],
    lines: (paid.lines ?? []).map(({ item, quantity, cost: amount }) => ({
      item,
      quantity,
      cost_nanousd: nanodollarsToJson(amount),
    })),
    ...(attempts
      ? { attempts: attempts.map(({ cost: amount, ...rest }) => ({ ...rest, cost_nanousd: amount })) }
      : {}),
    service_tier: tier,
    usage:
      fresh === null
        ? null
        : {
            prompt_tokens: Number(fresh) + written + cached,
            cached_tokens: cached,
            cache_write_tokens: written,
            completion_tokens: Number(row.tokens_output),
            reasoning_tokens: toNumber(row.tokens_reasoning),
          },
    started_at: row.reserved_at,
    ended_at: row.ended_at,
    first_byte_ms: toNumber(row.first_byte_ms),
    total_ms: toNumber(row.total_ms),
  };
}

const readDetails = ({ details }: RequestRow): RequestDetails =>
  details === null ? {} : (JSON.parse(details) as RequestDetails);

const toNumber = (value: bigint | null): number | null => (value === null ? null : Number(value));
