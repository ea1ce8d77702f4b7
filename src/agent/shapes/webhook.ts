import { z } from 'zod';
import { count, text, time } from './common.ts';

export const webhookState = z
  .object({
    url: text.describe('Without its query.'),
    types: z.array(text).optional().describe('What is sent; absent: all events.'),
    state: z
      .enum(['active', 'elsewhere', 'disabled'])
      .describe(
        '`elsewhere`: another host on the same database delivers; `disabled`: the endpoint answered 410, and gets nothing until the host is restarted.',
      ),
    delivered: count,
    waiting: count.describe('Events that are queued, also those that were tried.'),
    given_up: count,
    last_delivered_at: time.optional(),
    last_error: text.optional(),
    last_error_at: time.optional(),
    next_try_at: time.optional(),
  })
  .meta({ id: 'Webhook' });
export type WebhookState = z.infer<typeof webhookState>;

export const webhookList = z.object({ webhooks: z.array(webhookState) }).meta({ id: 'WebhookList' });
