export type PullErrorCode =
  | 'invalid_reference'
  | 'unauthorized'
  | 'not_found'
  | 'no_choice'
  | 'server'
  | 'interrupted'
  | 'checksum'
  | 'disk_full'
  | 'not_writable';

/** A download failed. The message says why and what to do. */
export class PullError extends Error {
  readonly code: PullErrorCode;
  constructor(code: PullErrorCode, message: string) {
    super(message);
    this.name = 'PullError';
    this.code = code;
  }
}

/** Converts a failed write to a `PullError`. Other errors are returned unchanged. */
export const explainWriteFailure = (path: string, error: unknown): unknown => {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  if (code === 'ENOSPC' || code === 'EDQUOT') {
    return new PullError(
      'disk_full',
      `${path}: the disk is full; free some space and run the command again, it resumes where it stopped`,
    );
  }
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS') {
    return new PullError('not_writable', `${path}: not allowed to write there; choose another --data-dir`);
  }
  return error;
};
