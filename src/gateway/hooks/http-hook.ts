import { z } from 'zod';
import { systemCode } from '../../util/system-code.ts';
import { webhookHeaders } from '../../webhooks/sign.ts';
import type { HookText, HookVerdict, HttpHook } from './types.ts';

/** What a hook is asked about. */
export interface HookQuestion {
  readonly requestId: string;
  readonly accountId: string;
  readonly keyId: string;
  /** Catalog id. */
  readonly model: string;
  readonly wire: string;
  readonly stream: boolean;
  readonly texts: readonly HookText[];
}

/** The hook gave no valid answer. The message names no URL. */
export class HookFailure extends Error {}

/** Size limit of a hook's answer, beyond that of the texts that it may replace. */
const answerOverheadBytes = 65_536;

const answerSchema = z.discriminatedUnion('action', [
  z.object({ action: z.literal('allow') }),
  z.object({ action: z.literal('block'), reason: z.string().optional() }),
  z.object({
    action: z.literal('replace'),
    texts: z.array(z.object({ index: z.int().min(0), text: z.string() })),
  }),
]);

/**
 * Asks a hook. Redirects are not followed. Rejects with `HookFailure`, or with the signal's reason.
 * @param signal aborts the request to the hook
 */
export async function askHook(
  { name, stage, url, key, timeoutMs }: HttpHook,
  { requestId, accountId, keyId, model, wire, stream, texts }: HookQuestion,
  signal?: AbortSignal,
): Promise<HookVerdict> {
  const now = new Date();
  const body = JSON.stringify({
    type: stage === 'before' ? 'request.before' : 'answer.after',
    timestamp: now.toISOString(),
    data: {
      hook: name,
      request_id: requestId,
      account_id: accountId,
      key_id: keyId,
      model,
      wire,
      stream,
      texts: texts.map((text, index) => ({ index, ...text })),
    },
  });
  const id = `${requestId}-${stage}-${name}`;
  const headers = webhookHeaders({ id, atMs: now.getTime(), body }, key);
  const timeout = AbortSignal.timeout(timeoutMs);
  // A replacement may be several times as long as what it replaces.
  const maxBytes = 4 * Buffer.byteLength(body) + answerOverheadBytes;
  try {
    const response = await fetch(url, {
      method: 'POST',
      body,
      headers: { 'content-type': 'application/json', ...headers },
      redirect: 'manual',
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    });
    if (response.status !== 200) {
      await response.body?.cancel().catch(() => undefined);
      const isRedirect = response.status >= 300 && response.status < 400;
      throw new HookFailure(
        `it answered with status ${response.status}${isRedirect ? ': redirects are not followed' : ', not 200'}`,
      );
    }
    return toVerdict(await readText(response, maxBytes), texts.length);
  } catch (error) {
    if (error instanceof HookFailure) throw error;
    signal?.throwIfAborted();
    if (timeout.aborted) throw new HookFailure(`no answer within ${timeoutMs} ms`);
    const cause = error instanceof Error ? error.cause : undefined;
    throw new HookFailure(systemCode(cause) ?? systemCode(error) ?? 'the request to it failed');
  }
}

async function readText({ body }: Response, maxBytes: number): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  // Leaving the loop closes the connection.
  for await (const chunk of body ?? []) {
    size += chunk.length;
    if (size > maxBytes) throw new HookFailure(`its answer has more than ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function toVerdict(text: string, textCount: number): HookVerdict {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new HookFailure('its answer is not JSON');
  }
  const parsed = answerSchema.safeParse(value);
  if (!parsed.success)
    throw new HookFailure(
      'its answer must be {"action": "allow"}, {"action": "block", "reason"} or {"action": "replace", "texts": [{"index", "text"}]}',
    );
  const answer = parsed.data;
  switch (answer.action) {
    case 'allow':
      return answer;
    case 'block':
      return { action: 'block', reason: answer.reason };
    case 'replace': {
      const unknown = answer.texts.find(({ index }) => index >= textCount);
      if (unknown)
        throw new HookFailure(`its answer replaces text ${unknown.index}, but only ${textCount} were sent`);
      return { action: 'replace', texts: new Map(answer.texts.map((one) => [one.index, one.text])) };
    }
  }
}
