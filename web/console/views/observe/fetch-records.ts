import { api, unwrap } from '../../../api/client.ts';
import type { ResultRecord } from './records.ts';
import type { Envelope, Query } from './types.ts';

/** A page of a result as records. */
export interface Records {
  readonly records: readonly ResultRecord[];
  readonly asOf: string;
  readonly coverage: Envelope['coverage'];
  readonly next: string | undefined;
}

export async function fetchRecords(query: Query): Promise<Records> {
  const envelope = await unwrap(api.POST('/observe/v1/query', { body: query }));
  const names = envelope.columns.map(({ name }) => name);
  return {
    records: envelope.rows.map((row) =>
      Object.fromEntries(names.map((name, index) => [name, (row[index] ?? null) as ResultRecord[string]])),
    ),
    asOf: envelope.as_of,
    coverage: envelope.coverage,
    next: envelope.next,
  };
}
