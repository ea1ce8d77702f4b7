import type { Draft } from './query-draft.ts';
import { LineSelect, ListEditor } from './list-editor.tsx';
import css from './observe.module.css';
import type { SurfaceColumn } from './types.ts';

/** Columns to group by, and the aggregates of each group. */
export function GroupsEditor(props: {
  draft: Draft;
  columns: readonly SurfaceColumn[];
  time: string;
  change: (change: Partial<Draft>) => void;
  faultAt: (part: 'group_by' | 'aggregate', index: number) => string | undefined;
}) {
  const { draft, columns, time, change, faultAt } = props;
  const columnOf = (name: string) => columns.find((column) => column.name === name);
  return (
    <>
      <ListEditor
        title="Group by"
        itemName="group"
        items={draft.group_by}
        onChange={(group_by) => change({ group_by })}
        maxItems={4}
        createItem={() => ({ column: time, bucket: 'hour' })}
        faultAt={(index) => faultAt('group_by', index)}
      >
        {(group, set, name) => (
          <>
            <LineSelect
              label={`Column of ${name}`}
              value={group.column}
              of={columns.map((column) => column.name)}
              choose={(column) => set({ column, bucket: columnOf(column)?.buckets?.[2] ?? '' })}
            />
            {columnOf(group.column)?.buckets && (
              <LineSelect
                label={`Time bucket of ${name}`}
                value={group.bucket}
                of={[
                  ['', 'exact time'],
                  ...(columnOf(group.column)?.buckets ?? []).map(
                    (bucket) => [bucket, `by ${bucket.replaceAll('_', ' ')}`] as const,
                  ),
                ]}
                choose={(bucket) => set({ bucket })}
              />
            )}
          </>
        )}
      </ListEditor>
      <ListEditor
        title="Aggregates"
        itemName="aggregate"
        items={draft.aggregate}
        onChange={(aggregate) => change({ aggregate })}
        maxItems={10}
        createItem={() => ({ fn: 'count', column: '', as: '' })}
        faultAt={(index) => faultAt('aggregate', index)}
      >
        {(aggregate, set, name) => (
          <>
            <LineSelect
              label={`Column of ${name}`}
              value={aggregate.column}
              of={[['', 'all rows'], ...columns.map((column) => column.name)]}
              choose={(column) => {
                const allowed = columnOf(column)?.aggregates ?? ['count'];
                set({
                  column,
                  fn: allowed.includes(aggregate.fn) ? aggregate.fn : (allowed.at(-1) ?? 'count'),
                });
              }}
            />
            <LineSelect
              label={`Function of ${name}`}
              value={aggregate.fn}
              of={columnOf(aggregate.column)?.aggregates ?? ['count']}
              choose={(fn) => set({ fn })}
            />
            <input
              aria-label={`Name of ${name} in the result`}
              className={css['control']}
              placeholder={aggregate.column === '' ? aggregate.fn : `${aggregate.fn}_${aggregate.column}`}
              value={aggregate.as}
              spellCheck={false}
              onChange={({ target }) => set({ as: target.value })}
            />
          </>
        )}
      </ListEditor>
    </>
  );
}
