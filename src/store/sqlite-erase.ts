import { type Kysely, sql } from 'kysely';
import type { Tables } from './schema.ts';

/** Files up to this size in bytes are rewritten as a whole, which takes about 0.2 s. */
const maxRewriteBytes = 64 * 1024 * 1024;

/**
 * Removes deleted rows from the file and from its write-ahead log. `secure_delete` overwrites rows where they are;
 * copies of a row may remain in unused parts of pages where SQLite moved it earlier. A small file is therefore
 * rewritten.
 * @returns false where another process reads the log, which is then truncated later
 */
export async function eraseFreedBytes(db: Kysely<Tables>): Promise<boolean> {
  const { rows: sizes } = await sql<{ bytes: number }>`
    select page_count * page_size as bytes from pragma_page_count(), pragma_page_size()`.execute(db);
  if ((sizes[0]?.bytes ?? 0) <= maxRewriteBytes) await sql`vacuum`.execute(db);
  const { rows } = await sql<{ busy: number }>`pragma wal_checkpoint(truncate)`.execute(db);
  return rows[0]?.busy === 0;
}
