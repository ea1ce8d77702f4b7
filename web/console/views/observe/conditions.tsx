import type { Draft } from './query-draft.ts';
import { LineSelect, ListEditor } from './list-editor.tsx';
import css from './observe.module.css';
import type { SurfaceColumn } from './types.ts';

const operatorLabels: Readonly<Record<string, string>> = {
  eq: '= is',
  ne: '≠ is not',
  lt: '< below',
  lte: '≤ at most',
  gt: '> above',
  gte: '≥ at least',
  in: 'is one of',
  not_in: 'is none of',
  contains: 'contains',
  starts_with: 'starts with',
  is_null: 'has no value',
};

/** Conditions that all rows must match. The operators depend on the column. */
export function Conditions(props: {
  draft: Draft;
  columns: readonly SurfaceColumn[];
  time: string;
  onChange: (where: Draft['where']) => void;
  faultAt: (index: number) => string | undefined;
}) {
  const { draft, columns, time, onChange, faultAt } = props;
  const columnOf = (name: string) => columns.find((column) => column.name === name);
  return (
    <ListEditor
      title="Where"
      itemName="condition"
      items={draft.where}
      onChange={onChange}
      maxItems={20}
      createItem={() => ({ column: time, op: 'gte', value: '-24h' })}
      faultAt={faultAt}
    >
      {(condition, set, name) => {
        const column = columnOf(condition.column);
        return (
          <>
            <LineSelect
              label={`Column of ${name}`}
              value={condition.column}
              of={columns.filter(({ operators }) => operators.length > 0).map((one) => one.name)}
              choose={(next) => {
                const operators = columnOf(next)?.operators ?? [];
                const op = operators.includes(condition.op) ? condition.op : (operators[0] ?? '');
                set({ column: next, op, value: valueFor(columnOf(next), op, condition.value) });
              }}
            />
            <LineSelect
              label={`Operator of ${name}`}
              value={condition.op}
              of={(column?.operators ?? []).map((op) => [op, operatorLabels[op] ?? op] as const)}
              choose={(op) => set({ op, value: valueFor(column, op, condition.value) })}
            />
            <Value
              label={`Value of ${name}`}
              column={column}
              op={condition.op}
              value={condition.value}
              set={(value) => set({ value })}
            />
          </>
        );
      }}
    </ListEditor>
  );
}

/** Keeps the value if it suits the column and operator; otherwise returns a default. */
function valueFor(column: SurfaceColumn | undefined, op: string, value: string): string {
  if (op === 'is_null' || column?.type === 'flag') return value === 'false' ? 'false' : 'true';
  if (column?.type === 'time') return /^-\d+[smhd]$|^\d{4}-/.test(value) ? value : '-24h';
  return /^-\d+[smhd]$|^(true|false)$/.test(value) ? '' : value;
}

function Value(props: {
  label: string;
  column: SurfaceColumn | undefined;
  op: string;
  value: string;
  set: (value: string) => void;
}) {
  const { label, column, op, value, set } = props;
  if (op === 'is_null' || column?.type === 'flag')
    return (
      <LineSelect
        label={label}
        value={value}
        of={
          op === 'is_null'
            ? [
                ['true', 'true'],
                ['false', 'false: has a value'],
              ]
            : ['true', 'false']
        }
        choose={set}
      />
    );
  const hint =
    op === 'in' || op === 'not_in'
      ? 'one, another'
      : column?.type === 'time'
        ? '-24h, -7d, 2026-01-31T12:00:00Z'
        : (column?.unit ?? column?.type ?? '');
  return (
    <input
      aria-label={label}
      className={css['control']}
      placeholder={hint}
      title={hint}
      value={value}
      spellCheck={false}
      onChange={({ target }) => set(target.value)}
    />
  );
}
