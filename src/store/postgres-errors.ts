import pg from 'pg';
import { errorMessage } from '../util/error-message.ts';
import { StoreError } from './errors.ts';

/** Advice for PostgreSQL errors, by `SQLSTATE`. */
const adviceBySqlState: Readonly<Record<string, string>> = {
  '28P01': 'check the user and the password',
  '28000': 'check the user and the password, and what pg_hba.conf allows',
  '3D000': 'create it, or name another one',
  '42501': 'let this user create and change tables there',
  '42P07': 'it holds tables of another program: use a separate database',
  '25006': 'it is a read-only replica: name the primary server',
  '53300': 'allow more connections there (max_connections), or run fewer hosts on it',
  '55P03': 'another host has held the write lock for too long: stop that one, or try again later',
};

/**
 * `SQLSTATE` codes of retryable errors, after which nothing was written: serialization failures, deadlocks, and a server
 * that stops, starts or has too many connections.
 */
const retryableSqlStates = new Set(['40001', '40P01', '57P01', '57P02', '57P03', '53300']);
/** Messages of the driver's own timeouts. */
const timeoutMessage = /timeout/i;

/** Whether the connection is broken or was never established. */
export const isConnectionLost = (error: unknown): boolean =>
  !(error instanceof pg.DatabaseError) || error.severity === 'FATAL' || error.severity === 'PANIC';

/** Converts a driver error. @param where description of the server; never the URL, which may hold a password */
export function explainPostgres(error: unknown, serverDescription: string): StoreError {
  if (error instanceof StoreError) return error;
  const { code = '' } = error as { code?: string };
  if (code === '53100')
    return new StoreError('storage_full', `the disk of the ${serverDescription} is full`, { cause: error });
  if (!(error instanceof pg.DatabaseError)) {
    const message = messageOf(error);
    return new StoreError(
      'storage_failed',
      `the ${serverDescription} cannot be reached (${message}): check that it runs and that its address is right`,
      { cause: error, isRetryable: !timeoutMessage.test(message) },
    );
  }
  const advice = adviceBySqlState[code];
  return new StoreError(
    'storage_failed',
    `the ${serverDescription}: ${error.message}${advice === undefined ? '' : `; ${advice}`}`,
    { cause: error, isRetryable: retryableSqlStates.has(code) },
  );
}

/** The message of an error. When a host name has several addresses, each has an error and the whole has no message. */
const messageOf = (error: unknown): string =>
  error instanceof AggregateError ? error.errors.map(messageOf).join(', ') : errorMessage(error);
