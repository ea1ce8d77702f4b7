import { StreamableHTTPError } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ErrorCode, McpError } from '@modelcontextprotocol/sdk/types.js';
import { oneLine } from './clean-text.ts';
import type { McpServerConfig } from './config.ts';
import { WireError } from './wire.ts';

const longest = 300;
const timedOut: number = ErrorCode.RequestTimeout;
const cutOff: number = ErrorCode.ConnectionClosed;

/** What went wrong with a server, as a part of a sentence after its name. Nothing of its secrets is in it. */
export function problemOf(error: unknown, config: McpServerConfig): string {
  return withoutSecrets(oneLine(words(error, config), longest), config);
}

/** Whether the server itself said that the call failed; else nobody knows what it has done. */
export const isAnswer = (error: unknown): boolean =>
  error instanceof McpError && error.code !== timedOut && error.code !== cutOff;

function words(error: unknown, { timeoutMs }: McpServerConfig): string {
  if (error instanceof WireError) return error.message;
  if (error instanceof McpError) {
    if (error.code === timedOut) return `it did not answer within ${timeoutMs / 1000} s`;
    if (error.code === cutOff) return 'the connection was closed';
    return `it answered with an error: ${error.message}`;
  }
  if (error instanceof StreamableHTTPError) {
    const hint = error.code === 401 || error.code === 403 ? '; check the headers that it is sent' : '';
    return `it answered with HTTP status ${error.code}${hint}`;
  }
  if (!(error instanceof Error)) return String(error);
  // Node's fetch hides what happened behind `fetch failed`.
  const { cause } = error;
  if (cause instanceof Error) {
    const code = 'code' in cause ? String(cause.code) : cause.message;
    return `it cannot be reached (${code})`;
  }
  if (error.name === 'ZodError' || error.name === '$ZodError')
    return 'it answers in a form that is not that of the protocol';
  return error.message;
}

/** A server may say again what it was told. */
function withoutSecrets(text: string, { transport }: McpServerConfig): string {
  const told = Object.values(transport.kind === 'stdio' ? transport.env : transport.headers);
  // Shorter ones would blot out words.
  const secrets = told.flatMap((value) => [value, ...value.split(/\s+/)]).filter(({ length }) => length >= 6);
  return secrets.reduce((clean, secret) => clean.replaceAll(secret, '***'), text);
}
