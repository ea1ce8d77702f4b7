import type { Query } from '../types.ts';

/** Path of the query view for a query. */
export const explorePath = (query: Query): string =>
  `/console/observe/explore?q=${encodeURIComponent(JSON.stringify(query))}`;

/** Path of the recorded content of a completion, task or run, which the grants of the racks restrict. */
export const transcriptPath = (subject: string): string =>
  explorePath({
    surface: 'transcript',
    // Long columns must be selected by name.
    select: ['rack', 'seq', 'at', 'kind', 'role', 'model', 'content', 'redacted'],
    where: [{ column: 'subject', op: 'eq', value: subject }],
  });
