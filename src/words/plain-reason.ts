/**
 * Reason of a failure that is safe to show to a caller: the error message. For Node system errors only the code,
 * because their messages contain paths and addresses of the machine.
 */
export function safeErrorReason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { code } = error as NodeJS.ErrnoException;
  const isSystemError = typeof code === 'string' && /^E[A-Z0-9_]+$/.test(code) && code !== 'ERR_SQLITE_ERROR';
  return isSystemError ? `system error ${code}` : error.message;
}
