import { randomUUID } from 'node:crypto';
import { StartError } from '../../cli/start-error.ts';
import { UsageError } from '../../config/usage.ts';
import { postEvent } from '../../webhooks/post-event.ts';
import { toShownUrl } from '../../webhooks/shown-url.ts';
import { webhookHeaders } from '../../webhooks/sign.ts';
import { type CommandContext, readConfig, writeResult } from './command-context.ts';

const timeoutMs = 15_000;

/** `webhook test`: sends one signed notice now, and says how the receiver answered. */
export async function testWebhook(context: CommandContext): Promise<void> {
  const { webhook } = await (await readConfig(context)).config();
  if (!webhook) throw new UsageError(['the configuration has no table [webhook]']);
  const id = `n_${randomUUID()}`;
  const now = context.environment.now();
  const body = JSON.stringify({ type: 'webhook.test', timestamp: now.toISOString(), data: {} });
  const headers = {
    'content-type': 'application/json',
    ...webhookHeaders({ id, atMs: now.getTime(), body }, webhook.key),
  };
  const { signal } = new AbortController();
  const result = await postEvent(webhook.url, { body, headers }, { timeoutMs, signal });
  const url = toShownUrl(webhook.url);
  if (result.kind === 'delivered') {
    writeResult(context, { url, webhook_id: id, delivered: true }, `${url} took the test notice ${id}\n`);
    return;
  }
  const error = result.kind === 'gone' ? 'status 410' : result.error;
  writeResult(context, { url, webhook_id: id, delivered: false, error }, '');
  throw new StartError(`${url} did not take the test notice: ${error}`);
}
