import { createHmac } from 'node:crypto';

const secretPrefix = 'whsec_';

/** What a secret of a webhook is; messages do not repeat the secret. */
export const webhookSecretRule =
  'expected whsec_ and 24 to 64 bytes as base64, as `echo whsec_$(openssl rand -base64 32)` makes it';

/**
 * The key of a secret, 24 to 64 bytes; undefined for what is no such secret.
 * Source: Standard Webhooks 1.0.0, https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */
export function webhookKey(secret: string): Buffer | undefined {
  const encoded = secret.startsWith(secretPrefix) ? secret.slice(secretPrefix.length) : '';
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(encoded)) return undefined;
  const key = Buffer.from(encoded, 'base64');
  return key.length >= 24 && key.length <= 64 ? key : undefined;
}

/** The headers of Standard Webhooks. @param atMs time of this attempt */
export function webhookHeaders(
  { id, atMs, body }: { readonly id: string; readonly atMs: number; readonly body: string },
  key: Buffer,
): Record<string, string> {
  const timestamp = String(Math.floor(atMs / 1000));
  const signature = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64');
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${signature}` };
}
