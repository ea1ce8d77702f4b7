import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { UsageError } from '../../src/config/usage.ts';
import { describeColumns } from '../../src/observe/query/column-operations.ts';
import { checkQuery } from '../../src/observe/query/check-query.ts';
import { getSurface } from '../../src/observe/surfaces/index.ts';
import type { ObserveEnvelope, ResultColumn } from '../../src/observe/types.ts';
import { ResultTable } from '../../src/observe-tool/result-table.ts';
import { type Flags, observeHelp, parseObserveArguments } from '../../src/observe-tool/arguments.ts';
import { formatCell, columnTitle, formatTime } from '../../src/observe-tool/cells.ts';
import { summaryLines } from '../../src/observe-tool/summary-lines.ts';
import { describeViolation, parseParameters, buildQuery } from '../../src/observe-tool/query-flags.ts';
import { displayWidth } from '../../src/terminal/text.ts';

const paint = (_: string, text: string) => text;
const completions = getSurface('completions');
const schema = {
  contract: 1,
  surface: 'completions',
  description: '',
  time: completions.time,
  key: completions.key,
  columns: describeColumns(completions),
} as const;

const flagsOf = (...args: string[]): Flags => {
  const invocation = parseObserveArguments(args);
  return 'flags' in invocation ? invocation.flags : {};
};
/** The query of flags, each with its values. */
const bodyOf = (given: Readonly<Record<string, readonly string[]>>) => {
  const args = Object.entries(given).flatMap(([flag, values]) =>
    values.flatMap((value) => [`--${flag}`, value]),
  );
  return buildQuery(schema, flagsOf('query', 'completions', ...args));
};
const faultsOf = (work: () => unknown): readonly string[] => {
  try {
    work();
  } catch (error) {
    if (error instanceof UsageError) return error.faults;
    throw error;
  }
  throw new Error('there is no fault');
};

describe('the command line', () => {
  test('becomes the query that the plane takes', () => {
    const body = bodyOf({
      where: [
        'total_ms > 1000',
        'started_at gte -24h',
        'stream = yes',
        'wire in chat, messages',
        'status != 503',
        'trace_id is_null',
        'code is_null false',
        'model eq a b=c',
        'model in ["a,b","c"]',
        'model eq " a"',
        'total_ms<=1.5',
      ],
      'group-by': ['started_at:hour,model'],
      aggregate: ['count', 'p95(total_ms) as slow'],
      'order-by': ['slow:desc', 'model'],
      limit: ['7'],
    });
    expect(body).toEqual({
      surface: 'completions',
      where: [
        { column: 'total_ms', op: 'gt', value: 1000 },
        { column: 'started_at', op: 'gte', value: '-24h' },
        { column: 'stream', op: 'eq', value: true },
        { column: 'wire', op: 'in', value: ['chat', 'messages'] },
        { column: 'status', op: 'ne', value: 503 },
        { column: 'trace_id', op: 'is_null', value: true },
        { column: 'code', op: 'is_null', value: false },
        { column: 'model', op: 'eq', value: 'a b=c' },
        { column: 'model', op: 'in', value: ['a,b', 'c'] },
        { column: 'model', op: 'eq', value: ' a' },
        { column: 'total_ms', op: 'lte', value: 1.5 },
      ],
      group_by: [{ column: 'started_at', bucket: 'hour' }, 'model'],
      aggregate: [{ fn: 'count' }, { fn: 'p95', column: 'total_ms', as: 'slow' }],
      order_by: [{ column: 'slow', direction: 'desc' }, { column: 'model' }],
      limit: 7,
    });
    expect(() => checkQuery(body)).not.toThrow();
  });

  test('a text stays a text, whatever it looks like', () => {
    fc.assert(
      fc.property(fc.string({ minLength: 1 }), (text) => {
        const value = text.trim();
        fc.pre(value !== '' && !/^(?:".*"|\[.*\])$/s.test(value));
        expect(bodyOf({ where: [`model eq ${text}`] }).where).toEqual([{ column: 'model', op: 'eq', value }]);
        const quoted = bodyOf({ where: [`model eq ${JSON.stringify(text)}`] }).where;
        expect(quoted).toEqual([{ column: 'model', op: 'eq', value: text }]);
      }),
    );
  });

  test('all syntax faults are reported at once', () => {
    expect(
      faultsOf(() =>
        bodyOf({
          where: ['total_ms', 'total_ms gtt 5', 'total_ms gt'],
          'group-by': ['started_at:hours'],
          aggregate: ['p96(total_ms)', 'p95 total_ms'],
          'order-by': ['model:down'],
        }),
      ),
    ).toEqual([
      "--where 'total_ms': expected 'COLUMN OP VALUE', for example 'total_ms > 1000'",
      "--where 'total_ms gtt 5': 'gtt' is not an operator (did you mean 'gt'?)",
      "--where 'total_ms gt': gt needs a value",
      "--group-by 'started_at:hours': 'hours' is not a bucket (did you mean 'hour'?)",
      "--aggregate 'p96(total_ms)': 'p96' is not an aggregate (did you mean 'p95'?)",
      "--aggregate 'p95 total_ms': expected 'FN(COLUMN)', for example 'p95(total_ms)' or 'count as answers'",
      "--order-by 'model:down': 'down' is not a direction: expected asc, desc",
    ]);
    expect(faultsOf(() => parseParameters(['since', '=x']))).toHaveLength(2);
    expect(faultsOf(() => parseObserveArguments(['tial', 'acts']))[0]).toContain("did you mean 'tail'?");
    expect(faultsOf(() => parseObserveArguments(['tail', 'acts', '--lst=3', '--where']))).toEqual([
      'unknown flag --lst (did you mean --last?)',
      '--where needs a value',
    ]);
    expect(faultsOf(() => parseObserveArguments(['surfaces', '--all', 'x']))).toEqual([
      '--all does not belong to the command surfaces',
      "surfaces takes no arguments, got 'x'",
    ]);
  });

  test('parameters of a question may hold anything behind the first =', () => {
    expect(parseParameters(['since=-7d', 'model=a=b', 'wire='])).toEqual({
      since: '-7d',
      model: 'a=b',
      wire: '',
    });
  });

  test('violations of the plane are reported with the flags that caused them', () => {
    const flags = flagsOf('query', 'acts', '--where', 'a eq 1', '--where', 'b eq 2', '--group-by', 'x,y');
    const describeAt = (path: string) => describeViolation({ path, message: 'is wrong' }, flags);
    expect(describeAt('where[1].value[0]')).toBe("--where 'b eq 2': is wrong");
    expect(describeAt('group_by[1].column')).toBe("--group-by 'y': is wrong");
    expect(describeAt('where')).toBe('--where: is wrong');
    expect(describeAt('limit')).toBe('--limit: is wrong');
    expect(describeAt('parameters.since')).toBe('--param since: is wrong');
    const file = flagsOf('query', '--file', 'q.json');
    expect(describeViolation({ path: 'where[1].value', message: 'is wrong' }, file)).toBe(
      'where[1].value: is wrong',
    );
  });

  test('the help names every command and flag, in 80 columns', () => {
    const help = observeHelp('1.0.0');
    for (const part of [
      'surfaces',
      'schema SURFACE',
      'query SURFACE',
      'ask QUESTION',
      'tail SURFACE',
      '--all',
    ])
      expect(help).toContain(part);
    for (const line of help.split('\n')) expect(line.length).toBeLessThanOrEqual(80);
  });
});

describe('values for people', () => {
  const asOf = '2026-06-15T12:00:00.000Z';

  test('figures, times, and what is none', () => {
    const cell = (type: ResultColumn['type'], value: unknown, unit?: string) =>
      formatCell({ type, ...(unit === undefined ? {} : { unit }) }, value, asOf);
    expect(cell('text', null)).toBe('-');
    expect(cell('integer', 1234567, 'tokens')).toBe('1,234,567');
    expect(cell('integer', '-9007199254740993', 'nanousd')).toBe('-9,007,199,254,740,993');
    expect(cell('integer', 503)).toBe('503');
    expect(cell('number', 88.606, 'ms')).toBe('88.61');
    expect(cell('number', 80000.4)).toBe('80,000');
    expect(cell('number', 0)).toBe('0');
    expect(cell('number', 2.5e-9)).toBe('2.500e-9');
    expect(cell('flag', false)).toBe('no');
    expect(cell('json', { a: [1] })).toBe('{"a":[1]}');
    expect(cell('time', 'some day')).toBe('some day');
  });

  test('a time is as long as it must be', () => {
    expect(formatTime('2026-06-15T11:59:30.250Z', asOf)).toBe('11:59:30');
    expect(formatTime('2026-06-14T23:59:59.999Z', asOf)).toBe('06-14 23:59:59');
    expect(formatTime('2024-02-29T12:00:00.001Z', asOf)).toBe('2024-02-29 12:00:00');
  });

  test('a heading has the unit unless the name contains it', () => {
    const head = (name: string, unit?: string, type: ResultColumn['type'] = 'number') =>
      columnTitle({ name, type, provenance: 'derived', ...(unit === undefined ? {} : { unit }) });
    expect(head('total_ms', 'ms')).toBe('total_ms');
    expect(head('slow', 'ms')).toBe('slow ms');
    expect(head('bytes', 'bytes')).toBe('bytes');
    expect(head('at', undefined, 'time')).toBe('at UTC');
  });
});

const result = fc.record({
  name: fc.stringMatching(/^[a-z][a-z_]{0,19}$/),
  type: fc.constantFrom(
    'text' as const,
    'integer' as const,
    'number' as const,
    'time' as const,
    'json' as const,
  ),
  provenance: fc.constant('measured' as const),
});
const valueFor = ({ type }: Pick<ResultColumn, 'type'>) =>
  fc.option(
    {
      text: fc.string({ unit: 'binary', maxLength: 60 }),
      integer: fc.integer(),
      number: fc.double({ noNaN: true, noDefaultInfinity: true }),
      time: fc.constantFrom('2026-06-15T11:59:30.250Z', '2024-02-29T12:00:00.001Z', 'odd\u001b[2J'),
      flag: fc.boolean(),
      json: fc.jsonValue(),
    }[type] as fc.Arbitrary<unknown>,
  );
const answers = fc
  .array(result, { minLength: 1, maxLength: 12 })
  .chain((columns) =>
    fc.tuple(
      fc.constant(columns),
      fc.array(fc.tuple(...columns.map(valueFor)), { minLength: 1, maxLength: 5 }),
    ),
  );

describe('a table', () => {
  test('fits the terminal and cannot control it, whatever it contains', () => {
    fc.assert(
      fc.property(answers, fc.integer({ min: 30, max: 200 }), ([columns, rows], width) => {
        const table = new ResultTable({ paint, width });
        const lines = table.lines(columns, rows, '2026-06-15T12:00:00.000Z');
        expect(lines).toHaveLength(rows.length + 1);
        for (const line of lines) {
          if (table.hidden.length < columns.length - 1) expect(displayWidth(line)).toBeLessThanOrEqual(width);
          expect(line).not.toMatch(/[\p{Cc}\u202a-\u202e\u2066-\u2069]/u);
        }
        expect(new ResultTable({ paint, width: Infinity }).lines(columns, rows, '')).toHaveLength(
          rows.length + 1,
        );
      }),
    );
  });

  const columns: ResultColumn[] = [
    { name: 'wire', type: 'text', provenance: 'derived' },
    { name: 'finish', type: 'text', provenance: 'derived' },
    { name: 'total_ms', type: 'number', unit: 'ms', provenance: 'measured' },
    { name: 'code', type: 'text', provenance: 'derived' },
  ];
  const rows = [
    ['chat', null, 12.5, 'no_resident_model'],
    ['messages', null, 1200, null],
  ];

  test('figures stand at the right, and a pipe gets all of it', () => {
    expect(new ResultTable({ paint, width: Infinity }).lines(columns, rows, '')).toEqual([
      'wire      finish  total_ms  code',
      'chat      -           12.5  no_resident_model',
      'messages  -          1,200  -',
    ]);
  });

  test('in a narrow terminal texts shrink first, then columns without values are dropped', () => {
    const table = new ResultTable({ paint, width: 29 });
    expect(table.lines(columns, rows, '')).toEqual([
      'wire      total_ms  code',
      'chat          12.5  no_resid…',
      'messages     1,200  -',
    ]);
    expect(table.hidden).toEqual(['finish']);
  });

  test('later rows are appended without another heading', () => {
    const table = new ResultTable({ paint, width: Infinity });
    expect(table.lines(columns, [], '')).toEqual([]);
    expect(table.lines(columns, rows.slice(0, 1), '')).toHaveLength(2);
    expect(table.lines(columns, rows.slice(1), '')).toEqual(['messages  -          1,200  -']);
  });
});

test('lines below a table describe coverage and omissions', () => {
  const envelope: ObserveEnvelope = {
    contract: 1,
    surface: 'completions',
    query: { surface: 'completions', group_by: ['wire'] },
    as_of: '2026-06-15T12:00:00.000Z',
    columns: [],
    rows: [],
    truncated: true,
    coverage: {
      from: '2026-06-15T10:00:00.000Z',
      to: '2026-06-15T11:00:00.000Z',
      gaps: [{ from: 'A', to: 'B', rows: 1, reason: 'overload' }],
      denominator: { rows: 340, with_value: { total_ms: 340, first_token_ms: 12 } },
    },
    redactions: [{ what: 'passages', reason: 'its policy', count: 2 }],
    warnings: ['\u001b[2Jno time'],
    elapsed_ms: 1,
  };
  const look = { paint, width: Infinity };
  expect(summaryLines({ rows: 3, hasMore: true, hidden: ['a', 'b'] }, envelope, look)).toEqual([
    '3 groups of 340 rows, from 2026-06-15T10:00:00.000Z to 2026-06-15T11:00:00.000Z; there are more rows: use --all or a larger --limit',
    'rows with a value: first_token_ms 12',
    'columns that do not fit: a, b; use --select or --json',
    'gap: 1 row lost between A and B (overload)',
    'warning: \uFFFD[2Jno time',
    'left out: passages (2): its policy',
  ]);
  for (const line of summaryLines({ rows: 3, hasMore: true, hidden: [] }, envelope, { paint, width: 40 }))
    expect(displayWidth(line)).toBeLessThanOrEqual(40);
});
