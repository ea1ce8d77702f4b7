import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  faultInAnswer,
  faultInStream,
  providerFault,
  safeMessage,
} from '../../src/wires/core/provider-faults.ts';

describe('faults of providers', () => {
  it.each([
    [400, 400, 'invalid_request_error', undefined, false, false],
    [413, 400, 'invalid_request_error', undefined, false, false],
    [422, 400, 'invalid_request_error', undefined, false, false],
    [401, 502, 'upstream_error', 'provider_credential_rejected', false, false],
    [403, 502, 'upstream_error', 'provider_credential_rejected', false, false],
    [404, 502, 'upstream_error', 'upstream_failed', false, false],
    [408, 504, 'upstream_error', 'upstream_timeout', true, false],
    [504, 504, 'upstream_error', 'upstream_timeout', true, true],
    // One caller's requests may be too many: that says nothing of the provider's health.
    [429, 429, 'rate_limit_error', 'rate_limit_exceeded', true, false],
    [402, 502, 'upstream_error', 'provider_quota_exhausted', true, false],
    [500, 502, 'upstream_error', 'upstream_failed', true, true],
    [502, 502, 'upstream_error', 'upstream_failed', true, true],
    [503, 502, 'upstream_error', 'upstream_failed', true, true],
    [529, 502, 'upstream_error', 'upstream_failed', true, true],
    [418, 502, 'upstream_error', 'upstream_failed', true, true],
  ])('status %i is a %i %s to the caller', (status, answer, type, code, isRetryable, isUnhealthy) => {
    const fault = providerFault(status, { message: 'Some words.' });
    expect(fault).toMatchObject({ isRetryable: isRetryable, isUnhealthy: isUnhealthy });
    expect(fault.error).toMatchObject({ status: answer, type });
    expect(fault.error.code).toBe(code);
    if (status !== 401 && status !== 403) expect(fault.error.message).toContain('Some words.');
  });

  it.each([
    [
      'OpenAI',
      "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.",
      'context_length_exceeded',
    ],
    [
      'OpenAI responses',
      'Your input exceeds the context window of this model. Please adjust your input and try again.',
      'context_length_exceeded',
    ],
    [
      'vLLM',
      "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (904 in the messages, 4096 in the completion).",
      400,
    ],
    [
      'vLLM of late',
      'The decoder prompt (length 5000) is longer than the maximum model length: maximum context length is 4096',
      400,
    ],
    [
      'llama.cpp',
      'the request exceeds the available context size. try increasing the context size or enable context shift',
      'exceed_context_size_error',
    ],
    [
      'llama.cpp of late',
      'request (9000 tokens) exceeds the available context size (4096 tokens), try increasing it',
      400,
    ],
    [
      'Mistral',
      'Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length',
      'invalid_request_prompt',
    ],
    [
      'DeepSeek',
      "This model's maximum context length is 65536 tokens. However, you requested 70000 tokens (66000 in the messages, 4000 in the completion). Please reduce the length of the messages or completion.",
      'invalid_request_error',
    ],
    ['Anthropic', 'prompt is too long: 200123 tokens > 200000 maximum', undefined],
    [
      'Anthropic with max_tokens',
      'input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000',
      undefined,
    ],
    [
      'Google',
      'The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).',
      400,
    ],
    [
      'xAI',
      "This model's maximum prompt length is 131072 but the request contains 200000 tokens.",
      'Client specified an invalid argument',
    ],
    ['Groq', 'Please reduce the length of the messages or completion.', 'context_length_exceeded'],
  ])('recognizes the context overflow of %s, and keeps its counts', (_, message, code) => {
    for (const status of [400, 422, 413]) {
      const { error, isRetryable } = providerFault(status, { message, code });
      expect(error).toMatchObject({
        status: 422,
        type: 'upstream_error',
        code: 'context_length_exceeded',
        message,
      });
      expect(isRetryable).toBe(false);
    }
  });

  it.each([
    'max_tokens must not exceed 4096',
    "Invalid 'messages[0].content': string too long. Expected a string with maximum length 10485760",
    'Unsupported value: temperature does not support 0.2 with this model',
    'The image exceeds the maximum size of 20 MB',
  ])('does not take other refusals for an overflow: %s', (message) => {
    expect(providerFault(400, { message, code: 'bad', param: 'x[0].y' }).error).toMatchObject({
      status: 400,
      message,
      code: 'bad',
      param: 'x[0].y',
    });
  });

  it.each([
    [
      'OpenAI',
      429,
      { code: 'insufficient_quota', type: 'insufficient_quota', message: 'You exceeded your current quota.' },
    ],
    [
      'OpenAI, a hard limit',
      400,
      { code: 'billing_hard_limit_reached', message: 'Billing hard limit has been reached.' },
    ],
    [
      'Anthropic',
      400,
      {
        type: 'invalid_request_error',
        message: 'Your credit balance is too low to access the Anthropic API.',
      },
    ],
    ['Anthropic, a billing error', 402, { type: 'billing_error', message: 'Pay.' }],
    ['DeepSeek', 402, { code: 'invalid_request_error', message: 'Insufficient Balance' }],
    ['xAI', 403, { message: 'Your newly created team has used all available credits.' }],
  ])('an account without credit at %s is not retried there', (_, status, words) => {
    const fault = providerFault(status, words, { 'retry-after': '1' });
    expect(fault).toMatchObject({
      isRetryable: true,
      isUnhealthy: false,
      retryAfterMs: Number.POSITIVE_INFINITY,
    });
    expect(fault.error).toMatchObject({
      status: 502,
      code: 'provider_quota_exhausted',
      headers: { 'x-should-retry': 'false' },
    });
    if (status === 429)
      expect(faultInAnswer(faultInStream(words))).toMatchObject({
        error: { code: 'provider_quota_exhausted' },
        isUnhealthy: false,
        retryAfterMs: Number.POSITIVE_INFINITY,
      });
  });

  it('treats a per-minute quota as a rate limit', () => {
    const message = 'You exceeded your current quota, please check your plan and billing details.';
    expect(providerFault(429, { type: 'RESOURCE_EXHAUSTED', message }).error.status).toBe(429);
  });

  it('reads the retry delay of the provider', () => {
    const wish = (headers: Record<string, string>) => providerFault(429, {}, headers).retryAfterMs;
    expect(wish({ 'retry-after-ms': '1500', 'retry-after': '9' })).toBe(1500);
    expect(wish({ 'retry-after': '2.5' })).toBe(2500);
    expect(wish({ 'retry-after': new Date(Date.now() + 60_000).toUTCString() })).toBeGreaterThan(50_000);
    expect(wish({ 'retry-after': new Date(0).toUTCString() })).toBe(0);
    for (const odd of ['', 'soon', '-3']) expect([undefined, 0]).toContain(wish({ 'retry-after': odd }));
    expect(providerFault(429, {}).error.headers).toEqual({ 'retry-after': '1' });
  });

  it.each([
    [{ code: 429 }, 429],
    [{ code: 'rate_limit_exceeded' }, 429],
    [{ type: 'overloaded_error' }, 502],
    [{ type: 'server_error' }, 502],
    [{ type: 'invalid_request_error', message: 'no' }, 400],
    [{ code: 'context_length_exceeded' }, 422],
    [{ type: 'authentication_error' }, 502],
    [{ code: 'content_filter' }, 400],
    [{}, 502],
    [{ code: {}, message: [1] }, 502],
  ])('classifies an error within a stream by its members: %j', (words, status) => {
    expect(faultInStream(words).error.status).toBe(status);
  });
});

describe("a provider's message, sanitized", () => {
  it.each([
    'Incorrect API key provided: sk-proj-********************wxyz. You can find it.',
    'Incorrect API key provided: sk-ab12*****7890.',
    'bad key sk-ant-api03-Ab_cd-EfGh1234567890',
    'got AIzaSyA1234567890abcdefghijklmnopqrstu',
    'header Authorization: Bearer abcdefgh12345678',
    'key 0123456789abcdef0123456789abcdef is unknown',
    'api_key=hunter2hunter2 is wrong',
    'token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl is bad',
    'the key gsk_abcdEFGH1234567890 and xai-abcdEFGH12345678',
    'https://host/path?key=Zx9Kq2Lm4Np6Rs8Tv0Wy',
  ])('redacts credentials: %s', (text) => {
    const safe = safeMessage(text);
    expect(safe).toContain('[cut]');
    expect(safe).not.toMatch(/wxyz|ab12|7890|EfGh|AIzaSy|abcdefgh|0123456789|hunter2|eyJ|gsk_|xai-|Zx9K/);
  });

  it.each([
    'The model `claude-sonnet-4-5-20250929` does not exist, try gpt-4o-mini-2024-07-18 or Qwen3-Coder-480B-A35B-Instruct.',
    'meta-llama/Llama-3.3-70B-Instruct: maximum context length is 131072 tokens, you asked for 200000 (136,000 + 64,000).',
    "Invalid 'tools[0].function.parameters.additionalProperties': expected an object at messages[12].content[0].image_url.",
    'An assistant message with tool_calls must be followed by tool messages.',
  ])('keeps useful text: %s', (text) => {
    expect(safeMessage(text)).toBe(text);
  });

  it('is one line of at most 500 characters', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 2000 }), (text) => {
        const safe = safeMessage(text);
        expect(safe.length).toBeLessThanOrEqual(500);
        expect(safe).not.toMatch(/[\n\r\t\0]/);
      }),
    );
    expect(safeMessage('word '.repeat(1_000_000)).length).toBeLessThanOrEqual(500);
  });
});
