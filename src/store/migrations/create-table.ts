import { type CreateTableBuilder, type Kysely, PostgresAdapter, sql } from 'kysely';

/** A table definition. Each member lists column names, separated by spaces; both databases treat these types alike. */
export interface Table {
  readonly key: string;
  readonly text: string;
  readonly optionalText?: string;
  readonly count?: string;
  readonly optionalCount?: string;
  readonly optionalNumber?: string;
}

export async function createTable(db: Kysely<unknown>, name: string, table: Table): Promise<void> {
  // Sorts by code points, independent of the server's locale.
  const text = db.getExecutor().adapter instanceof PostgresAdapter ? sql`text collate "C"` : 'text';
  const columns = (
    names: string | undefined,
    type: typeof text | 'bigint' | 'double precision',
    required: boolean,
  ) => (names?.split(' ') ?? []).map((column) => ({ column, type, required }));
  let builder: CreateTableBuilder<string, string> = db.schema.createTable(name);
  for (const { column, type, required } of [
    ...columns(table.text, text, true),
    ...columns(table.optionalText, text, false),
    ...columns(table.count, 'bigint', true),
    ...columns(table.optionalCount, 'bigint', false),
    ...columns(table.optionalNumber, 'double precision', false),
  ])
    builder = builder.addColumn(column, type, (one) => (required ? one.notNull() : one));
  await builder.addPrimaryKeyConstraint(`${name}_key`, table.key.split(' ')).execute();
}
