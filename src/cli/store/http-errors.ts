/** Maps errors of models and downloads to HTTP errors. */
import { HttpError } from '../../http/error.ts';
import { PullError, type PullErrorCode } from '../../pull/errors.ts';
import { StartError } from '../start-error.ts';

const statusOf: Readonly<Record<PullErrorCode, number>> = {
  invalid_reference: 400,
  unauthorized: 401,
  not_found: 404,
  no_choice: 400,
  server: 502,
  interrupted: 502,
  checksum: 502,
  disk_full: 507,
  not_writable: 500,
};

/** Other errors are returned unchanged; they are bugs. */
export function toHttpError(error: unknown): unknown {
  if (error instanceof PullError) return new HttpError(statusOf[error.code], error.code, error.message);
  if (error instanceof StartError) return new HttpError(400, 'ambiguous_model', error.message);
  return error;
}
