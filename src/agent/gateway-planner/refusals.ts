import { AgentError } from '../errors.ts';

/** Characters of a gateway's own words that are passed on. */
const mostWords = 300;
/** Bytes of a refusal that are read. */
const mostRead = 64 * 1024;

/** What a gateway that did not answer is to the one who asked. */
export const unreachable = (url: string, cause: unknown): AgentError => {
  const host = URL.canParse(url) ? new URL(url).host : 'its address';
  const message = `The gateway at ${host} cannot be reached. Check [gateway] url in the configuration.`;
  return new AgentError('unavailable', 'gateway_unreachable', message, { cause });
};

/** The refusal that a status and a body stand for. */
export async function refusal(
  response: Response,
  model: string,
  key: string | undefined,
): Promise<AgentError> {
  const { status } = response;
  const { words, code } = said(await beginning(response), key);
  return toRefusal({ status, words, code, model });
}

/** An error in the middle of a stream. */
export function streamRefusal(error: unknown, model: string, key: string | undefined): AgentError {
  const { words, code } = said(JSON.stringify({ error }), key);
  return toRefusal({ status: 500, words, code, model });
}

interface Said {
  readonly words: string;
  readonly code: string;
}

function toRefusal({ status, words, code, model }: Said & { status: number; model: string }): AgentError {
  const own = words === '' ? '' : ` It says: ${words}`;
  if (isTooLong(code, words))
    return new AgentError(
      'invalid',
      'context_length_exceeded',
      `The conversation is too long for '${model}'.${own}`,
    );
  if (status === 401 || status === 403)
    return new AgentError(
      'unavailable',
      'gateway_unauthorized',
      'The gateway refused the key. Check [gateway] key_file or key_env in the configuration.',
    );
  if (status === 404)
    return new AgentError(
      'unavailable',
      'gateway_model_not_found',
      `The gateway has no model '${model}'.${own}`,
    );
  if (status === 402)
    return new AgentError('unavailable', 'gateway_payment_required', `The gateway wants to be paid.${own}`);
  if (status === 429 || status === 502 || status === 503 || status === 529)
    return new AgentError(
      'too_many',
      'gateway_busy',
      `The gateway has no time at the moment (${status}).${own}`,
    );
  return new AgentError('unavailable', 'gateway_failed', `The gateway failed (${status}).${own}`);
}

const isTooLong = (code: string, words: string) =>
  code === 'context_length_exceeded' ||
  /context (?:length|window)|maximum context|prompt is too long/i.test(words);

async function beginning(response: Response): Promise<string> {
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const piece of response.body ?? []) {
      pieces.push(piece);
      bytes += piece.byteLength;
      if (bytes > mostRead) break;
    }
  } catch {
    // What there is of it is enough.
  }
  return Buffer.concat(pieces).toString('utf8');
}

/** The words of an error body; never the key, should the gateway repeat it. */
function said(body: string, key: string | undefined): Said {
  let error: unknown;
  try {
    error = (JSON.parse(body) as { error?: unknown } | null)?.error;
  } catch {
    error = undefined;
  }
  const { message, code } = (typeof error === 'object' && error ? error : { message: error }) as {
    message?: unknown;
    code?: unknown;
  };
  const words = typeof message === 'string' ? message : '';
  const safe = key === undefined || key === '' ? words : words.replaceAll(key, '(key)');
  return {
    words: safe.replaceAll(/\s+/g, ' ').trim().slice(0, mostWords),
    code: typeof code === 'string' ? code : '',
  };
}
