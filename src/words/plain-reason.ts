/**
 * Why something failed, for who asked: an error's message, but of Node's own errors the code alone, because their
 * messages name paths and addresses of the machine.
 */
export function plainReason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { code } = error as NodeJS.ErrnoException;
  const isNodes = typeof code === 'string' && /^E[A-Z0-9_]+$/.test(code) && code !== 'ERR_SQLITE_ERROR';
  return isNodes ? `the system says ${code}` : error.message;
}
