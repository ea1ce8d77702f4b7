import { parseRetryAfterMs } from '../../util/retry-after.ts';
import { WireError, invalidRequest } from './error.ts';
import type { UpstreamFault } from './wire.ts';

/** Error members of a provider's response, each where present. */
export interface ProviderErrorFields {
  readonly message?: unknown;
  readonly code?: unknown;
  readonly type?: unknown;
  readonly param?: unknown;
}

/** Classifies a provider's error response for the caller and the router, the same for all wires. */
export function providerFault(
  status: number,
  fields: ProviderErrorFields,
  headers: Readonly<Record<string, string>> = {},
): UpstreamFault {
  const providerMessage = safeMessage(asText(fields.message));
  const messageSuffix = providerMessage === '' ? '' : ` It says: ${providerMessage}`;
  const upstreamError = (answer: number, code: string, message: string) =>
    new WireError(answer, 'upstream_error', message, { code });
  const retryAfterMs = parseRetryAfterMs((name) => headers[name]);
  const retryable = { isRetryable: true, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) };

  if (isOutOfCredit(status, fields)) {
    const message = `The provider's account that serves this model is out of credit or quota; retrying does not help until its owner adds some.${messageSuffix}`;
    const error = new WireError(502, 'upstream_error', message, {
      code: quotaExhaustedCode,
      headers: { 'x-should-retry': 'false' },
    });
    // Never retried at this provider, but possibly at another.
    return { error, isRetryable: true, isUnhealthy: false, retryAfterMs: neverRetryHereMs };
  }
  if (isRefusal(status) || status === 500) {
    if (isContextOverflow(fields)) {
      const message =
        providerMessage === '' ? "The prompt exceeds the model's context window." : providerMessage;
      return {
        error: upstreamError(422, 'context_length_exceeded', message),
        isRetryable: false,
        isUnhealthy: false,
      };
    }
  }
  if (isRefusal(status)) {
    const code = safeIdentifier(fields.code);
    const param = safeIdentifier(fields.param);
    const error = invalidRequest(
      providerMessage === '' ? 'The provider refused the request.' : providerMessage,
      {
        ...(code === undefined ? {} : { code }),
        ...(param === undefined ? {} : { param }),
      },
    );
    return { error, isRetryable: false, isUnhealthy: false };
  }
  switch (status) {
    case 401:
    case 403: {
      const message = "The provider rejected the credential; check the provider's key.";
      return {
        error: upstreamError(502, 'provider_credential_rejected', message),
        isRetryable: false,
        isUnhealthy: false,
      };
    }
    case 404: {
      const message = `The provider does not know the model or the address.${messageSuffix}`;
      return {
        error: upstreamError(502, 'upstream_failed', message),
        isRetryable: false,
        isUnhealthy: false,
      };
    }
    case 408:
    case 504: {
      const message = `The provider did not answer in time; try again.${messageSuffix}`;
      return {
        error: upstreamError(504, 'upstream_timeout', message),
        ...retryable,
        isUnhealthy: status === 504,
      };
    }
    case 429: {
      const message = `The provider is rate limiting requests; try again later.${messageSuffix}`;
      const error = new WireError(429, 'rate_limit_error', message, {
        code: 'rate_limit_exceeded',
        headers: { 'retry-after': '1' },
      });
      // A rate limit does not make the provider unhealthy: one caller's requests may be too many while others are
      // served.
      return { error, ...retryable, isUnhealthy: false };
    }
    default: {
      const message = `The provider failed with status ${status}; try again.${messageSuffix}`;
      return { error: upstreamError(502, 'upstream_failed', message), ...retryable, isUnhealthy: true };
    }
  }
}

/**
 * Classifies an error that a provider reports within a stream of status 200. Its code and type determine the equivalent
 * status.
 */
export function faultInStream(fields: ProviderErrorFields): UpstreamFault {
  return providerFault(statusOf(fields), fields);
}

/**
 * Classifies an error event of an answer with status 200. An error that is not retryable is caused by the request and
 * does not count against the provider's health.
 */
export function faultInAnswer({
  error,
  isRetryable,
}: Pick<UpstreamFault, 'error' | 'isRetryable'>): UpstreamFault {
  const isExhausted = error.code === quotaExhaustedCode;
  return {
    error,
    isRetryable,
    isUnhealthy: isRetryable && error.status >= 500 && !isExhausted,
    ...(isExhausted ? { retryAfterMs: neverRetryHereMs } : {}),
  };
}

/** An infinite delay: the provider is not asked again for this request. */
const neverRetryHereMs = Number.POSITIVE_INFINITY;
const quotaExhaustedCode = 'provider_quota_exhausted';
const creditCodes =
  /insufficient_(quota|balance|credits?|funds)|billing_(error|hard_limit|not_active)|payment_required/i;
/**
 * Anthropic reports it with status 400, xAI with 403 and 429. Google's "quota exceeded" is absent, because it is also
 * used for per-minute limits.
 */
const creditMessages =
  /^your credit balance is too low|^insufficient (account )?balance\b|run out of (available )?credits|used all (available|of your) credits/i;

const isOutOfCredit = (status: number, { message, code, type }: ProviderErrorFields): boolean =>
  status === 402 ||
  creditCodes.test(asText(code)) ||
  creditCodes.test(asText(type)) ||
  (status >= 400 && status < 500 && creditMessages.test(asText(message)));

const isRefusal = (status: number) => status === 400 || status === 413 || status === 422;

/** Status by the error names that providers use. An unknown name counts as the provider's fault. */
const namedFaults: readonly (readonly [RegExp, number])[] = [
  [/rate_?limit|too_many_requests|resource_exhausted/i, 429],
  [/overloaded|unavailable/i, 503],
  [/timeout|deadline_exceeded/i, 504],
  [/authentication|permission|invalid_api_key|unauthenticated/i, 401],
  [/not_found/i, 404],
  [/invalid_(request|argument)|bad_request|content_filter|content_policy|context_length|too_large/i, 400],
];

function statusOf(fields: ProviderErrorFields): number {
  const code = Number(fields.code);
  if (Number.isInteger(code) && code >= 400 && code < 600) return code;
  const names = `${asText(fields.code)} ${asText(fields.type)}`;
  if (isContextOverflow(fields)) return 400;
  return namedFaults.find(([pattern]) => pattern.test(names))?.[1] ?? 500;
}

/** Providers use many names for a context overflow; most state it in the message only. */
const overflowCodes = /context_?(length|window|size).*exceed|exceed.*context|prompt_too_long/i;
const overflowMessages: readonly RegExp[] = [
  // OpenAI, DeepSeek, vLLM: "This model's maximum context length is 8192 tokens. However, you requested 9000..."
  /maximum context length/i,
  // OpenAI's newer message and llama.cpp: "exceeds the (available) context window/size"
  /exceeds?\b.{0,60}\bcontext (window|size|length)/i,
  /context (window|size|length)\b.{0,60}\bexceed/i,
  // Older llama.cpp: "the request exceeds the available context size"; Ollama: "input length exceeds context length"
  /input (length|prompt)\b.{0,60}\bexceeds?\b/i,
  // Mistral: "Prompt contains 40000 tokens ... too large for model with 32768 maximum context length"; Anthropic
  /prompt (is too long|contains \d+ tokens)/i,
  /input (is too long|length and `?max_tokens`? exceed)/i,
  // Google: "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
  /input token count.{0,40}exceeds/i,
  // xAI: "This model's maximum prompt length is 131072 but the request contains 200000 tokens."
  /maximum prompt length/i,
  // Groq: "Please reduce the length of the messages or completion."
  /reduce the length of the (messages|prompt|input)/i,
];

export function isContextOverflow({ message, code, type }: ProviderErrorFields): boolean {
  if (overflowCodes.test(asText(code)) || overflowCodes.test(asText(type))) return true;
  const text = asText(message).slice(0, 4000);
  return overflowMessages.some((pattern) => pattern.test(text));
}

const asText = (value: unknown): string =>
  typeof value === 'string' ? value : typeof value === 'number' ? String(value) : '';

const safeIdentifier = (value: unknown): string | undefined =>
  typeof value === 'string' && /^[\w.[\]-]{1,64}$/.test(value) && safeMessage(value) === value
    ? value
    : undefined;

const maxMessageChars = 500;
const redactionMark = '[cut]';

/**
 * Sanitizes a provider's message: one line of at most 500 characters, without anything that looks like a credential,
 * including partly masked ones. Providers echo keys, whole or masked. The credential that was sent is known to the
 * sender, which removes it.
 */
export function safeMessage(text: string): string {
  const line = text
    .slice(0, 20 * maxMessageChars)
    .replaceAll(/[\s\p{Cc}]+/gu, ' ')
    .trim();
  const safe = line
    .replaceAll(/\b(Bearer|Basic)\s+[^\s"',;]+/gi, `$1 ${redactionMark}`)
    .replaceAll(
      /\b((?:api|access|secret|subscription)[ _-]?key|token|password)((?: provided)?\s*[:=]\s*)["']?[^\s"',;]+/gi,
      `$1$2${redactionMark}`,
    )
    .replaceAll(/[\w.+/=~*•…-]+/g, (word) => (isKeyLike(word) ? redactionMark : word));
  return safe.length <= maxMessageChars ? safe : `${safe.slice(0, maxMessageChars - 1)}…`;
}

/** Prefixes of providers' keys. */
const keyStart =
  /^(sk|pk|rk|ak|key|gsk|xai|hf|pplx|nvapi|fw|tgp|csk|r8|glpat|ghp|lathe)[-_][\w*.…•-]{6,}|^(AIza|ya29\.|eyJ|AKIA|AQ\.)[\w.-]{8,}/i;

function isKeyLike(word: string): boolean {
  if (keyStart.test(word)) return true;
  if (/\w(\*{3,}|•{3,}|…|\.{3,})\w/.test(word) || /\w{4,}\*{3,}|\*{3,}\w{3,}/.test(word)) return true;
  if (/[0-9a-f]{32}/i.test(word)) return true;
  return word.split('/').some((run) => run.length >= 20 && isRandom(run));
}

/**
 * Random text changes its character class at every second position; names such as `Qwen3-Coder-480B-A35B` rarely do.
 */
function isRandom(word: string): boolean {
  let changes = 0;
  for (let at = 1; at < word.length; at++) {
    const [before, current] = [characterClass(word.charCodeAt(at - 1)), characterClass(word.charCodeAt(at))];
    // An upper-case letter before lower-case letters begins a word.
    if (before !== 0 && current !== 0 && before !== current && !(before === 2 && current === 3)) changes++;
  }
  return changes / word.length > 0.24;
}

/** 0 other, 1 digit, 2 upper case, 3 lower case. */
function characterClass(code: number): number {
  if (code >= 0x30 && code <= 0x39) return 1;
  if (code >= 0x41 && code <= 0x5a) return 2;
  return code >= 0x61 && code <= 0x7a ? 3 : 0;
}
