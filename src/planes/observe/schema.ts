import { z } from 'zod';

const column = z.object({
  name: z.string(),
  type: z.enum(['text', 'integer', 'number', 'time', 'flag', 'json']),
  unit: z.string().optional(),
  provenance: z
    .enum(['measured', 'claimed', 'derived'])
    .describe(
      'Measured by this host, claimed by another party, or derived by the host. A column has a single provenance.',
    ),
});

export const surfaceList = z
  .object({
    contract: z.literal(1),
    surfaces: z.array(
      z.object({ name: z.string(), description: z.string(), time: z.string(), columns: z.int() }),
    ),
    questions: z.array(z.object({ name: z.string(), description: z.string(), parameters: z.unknown() })),
  })
  .meta({ id: 'ObserveSurfaces' });

export const surfaceSchema = z
  .object({
    contract: z.literal(1),
    surface: z.string(),
    description: z.string(),
    time: z
      .string()
      .describe('The time column: coverage refers to it, and rows are sorted by it, newest first.'),
    key: z.array(z.string()).describe('Columns that identify a row.'),
    columns: z.array(
      column.extend({
        nullable: z.boolean(),
        description: z.string(),
        operators: z.array(z.string()),
        aggregates: z.array(z.string()),
        buckets: z.array(z.string()).optional(),
      }),
    ),
  })
  .meta({ id: 'ObserveSchema' });

export const observeEnvelope = z
  .object({
    contract: z.literal(1),
    surface: z.string(),
    query: z.unknown().describe('The query as it was executed.'),
    as_of: z.iso.datetime(),
    columns: z.array(column),
    rows: z.array(z.array(z.unknown())).describe('Values in the order of `columns`.'),
    truncated: z.boolean().describe('More rows exist; send `next` as the `cursor` to get them.'),
    next: z.string().optional(),
    coverage: z.object({
      from: z.string().nullable(),
      to: z.string().nullable(),
      gaps: z.array(z.object({ from: z.string(), to: z.string(), rows: z.int(), reason: z.string() })),
      denominator: z
        .object({ rows: z.int(), with_value: z.record(z.string(), z.int()) })
        .nullable()
        .describe(
          'Number of rows that match the query, and how many of them have a value in each measured or claimed column.',
        ),
    }),
    redactions: z.array(z.object({ what: z.string(), reason: z.string(), count: z.int().optional() })),
    warnings: z.array(z.string()),
    elapsed_ms: z.number(),
  })
  .meta({ id: 'ObserveEnvelope' });
