import { StreamableHTTPError } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ErrorCode, McpError } from '@modelcontextprotocol/sdk/types.js';
import { cleanLine } from './clean-text.ts';
import type { McpServerConfig } from './config.ts';
import { McpTransportError } from './transport-limits.ts';

const maxLength = 300;
const requestTimeoutCode: number = ErrorCode.RequestTimeout;
const connectionClosedCode: number = ErrorCode.ConnectionClosed;

/** Describes a server's failure, as a clause to follow its name. Secrets are redacted. */
export function describeFailure(error: unknown, config: McpServerConfig): string {
  return redactSecrets(cleanLine(failureText(error, config), maxLength), config);
}

/** Whether the server itself reported the failure; otherwise it is unknown whether the call was executed. */
export const isServerError = (error: unknown): boolean =>
  error instanceof McpError && error.code !== requestTimeoutCode && error.code !== connectionClosedCode;

function failureText(error: unknown, { timeoutMs }: McpServerConfig): string {
  if (error instanceof McpTransportError) return error.message;
  if (error instanceof McpError) {
    if (error.code === requestTimeoutCode) return `it did not answer within ${timeoutMs / 1000} s`;
    if (error.code === connectionClosedCode) return 'the connection was closed';
    return `it answered with an error: ${error.message}`;
  }
  if (error instanceof StreamableHTTPError) {
    const hint = error.code === 401 || error.code === 403 ? '; check the headers that it is sent' : '';
    return `it answered with HTTP status ${error.code}${hint}`;
  }
  if (!(error instanceof Error)) return String(error);
  // Node's fetch reports `fetch failed`, with the actual error as its cause.
  const { cause } = error;
  if (cause instanceof Error) {
    const code = 'code' in cause ? String(cause.code) : cause.message;
    return `it cannot be reached (${code})`;
  }
  if (error.name === 'ZodError' || error.name === '$ZodError')
    return 'its answer does not follow the protocol';
  return error.message;
}

/** Redacts configured secrets, which a server may repeat in its errors. */
function redactSecrets(text: string, { transport }: McpServerConfig): string {
  const configuredValues = Object.values(transport.kind === 'stdio' ? transport.env : transport.headers);
  // Shorter values could be ordinary words.
  const secrets = configuredValues
    .flatMap((value) => [value, ...value.split(/\s+/)])
    .filter(({ length }) => length >= 6);
  return secrets.reduce((clean, secret) => clean.replaceAll(secret, '***'), text);
}
