import { isRecord } from '../../util/json.ts';
import { parseRetryAfterMs } from '../../util/retry-after.ts';
import { readErrorFields } from '../../wires/chat/failure.ts';
import { isContextOverflow, safeMessage } from '../../wires/core/provider-faults.ts';
import { AgentError } from '../errors.ts';

/** Bytes of an error body that are read. */
const maxErrorBytes = 64 * 1024;

/** Codes of a connection that was made and then lost. */
const lostConnection: ReadonlySet<string> = new Set(['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET']);

/** The request failed before a response came. */
export function connectionError(url: string, cause: unknown): AgentError {
  const host = URL.canParse(url) ? new URL(url).host : 'its address';
  const inner = cause instanceof Error ? cause.cause : undefined;
  if (isRecord(inner) && lostConnection.has(String(inner['code']))) {
    const reset = `The gateway at ${host} closed the connection before it answered; send it again.`;
    return new AgentError('unavailable', 'gateway_reset', reset, { cause, isPassing: true });
  }
  const message = `The gateway at ${host} cannot be reached. Check [gateway] url in the configuration.`;
  return new AgentError('unavailable', 'gateway_unreachable', message, { cause });
}

/** The stream ended without a finish reason. */
export const interruptedError = (cause?: unknown): AgentError =>
  new AgentError('unavailable', 'gateway_broke_off', 'The gateway did not complete its answer.', {
    cause,
    isPassing: true,
  });

/** Reads the body of an error response, as far as it arrives. */
export async function readErrorBody(response: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const chunk of response.body ?? []) {
      chunks.push(chunk);
      bytes += chunk.byteLength;
      if (bytes > maxErrorBytes) break;
    }
  } catch {
    // The part that arrived is enough.
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** The message of a refusal. Dialects are read from it, because not all servers set `code` or `param`. */
export const refusalMessage = (body: string): string => {
  const { message } = readErrorFields(body);
  return typeof message === 'string' ? message : '';
};

/** Maps status and body of an error response to an error. The key is redacted if the gateway repeats it. */
export function toAgentError(
  status: number,
  body: string,
  model: string,
  key: string | undefined,
  headers: Headers = new Headers(),
): AgentError {
  const errorFields = readErrorFields(body);
  const message = refusalMessage(body);
  const serverMessage = safeMessage(
    key === undefined || key === '' ? message : message.replaceAll(key, '(key)'),
  );
  const detail = serverMessage === '' ? '' : ` It says: ${serverMessage}`;
  if (isContextOverflow(errorFields))
    return new AgentError(
      'invalid',
      'context_length_exceeded',
      `The conversation is too long for '${model}'.${detail}`,
    );
  switch (status) {
    case 401:
    case 403:
      return new AgentError(
        'unavailable',
        'gateway_unauthorized',
        'The gateway refused the key. Check [gateway] key_file or key_env in the configuration.',
      );
    case 404:
      return new AgentError(
        'unavailable',
        'gateway_model_not_found',
        `The gateway has no model '${model}'.${detail}`,
      );
    case 402:
      return new AgentError(
        'unavailable',
        'gateway_payment_required',
        `The gateway requires payment (402).${detail}`,
      );
    case 429:
    case 502:
    case 503:
    case 529:
      return new AgentError('too_many', 'gateway_busy', `The gateway is busy (${status}).${detail}`, {
        retryAfterMs: parseRetryAfterMs((name) => headers.get(name)),
      });
    default:
      return new AgentError('unavailable', 'gateway_failed', `The gateway failed (${status}).${detail}`, {
        isPassing: [408, 500, 504].includes(status),
      });
  }
}
