import { PostgresDialect } from 'kysely';
import pg from 'pg';

/** PostgreSQL's `bigint`, which the driver would hand out as text. Our counts stay below 2^53. */
const int8 = 20;

export function postgresDialect(url: string, onIdleError: (error: Error) => void): PostgresDialect {
  const types: pg.CustomTypesConfig = {
    getTypeParser: (id, format) =>
      id === int8 ? Number : (pg.types.getTypeParser(id, format as 'text') as (value: string) => unknown),
  };
  const pool = new pg.Pool({ connectionString: url, max: 8, connectionTimeoutMillis: 5000, types });
  // Of connections that nobody uses at the moment; unheard, it would end the process.
  pool.on('error', onIdleError);
  return new PostgresDialect({ pool });
}
