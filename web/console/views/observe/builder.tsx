import type { Fault } from '../../api/fault.ts';
import { Field } from '../../parts/index.tsx';
import { Conditions } from './conditions.tsx';
import { answeredNames, type Draft } from './draft.ts';
import { Groups } from './groups.tsx';
import { LineSelect, ListEditor } from './list-editor.tsx';
import css from './observe.module.css';
import type { Schema } from './types.ts';

/** Form for a query, by the schema of its surface. */
export function Builder(props: {
  draft: Draft;
  schema: Schema;
  change: (draft: Draft) => void;
  /** Error of the last query. */
  fault: Fault | undefined;
}) {
  const { draft, schema, change, fault } = props;
  const { columns, time } = schema;
  const set = (part: Partial<Draft>) => change({ ...draft, ...part });
  const faultAt = (part: string) => (index: number) =>
    fault?.violations
      .filter(({ path }) => path.startsWith(`${part}[${index}]`) || path.startsWith(`${part}.${index}`))
      .map(({ message }) => message)
      .join('; ') || undefined;
  return (
    <>
      <fieldset className={css['list']}>
        <legend>Show</legend>
        <div className={css['choices']}>
          <label>
            <input
              type="radio"
              name="shape"
              checked={draft.shape === 'rows'}
              onChange={() => set({ shape: 'rows', order_by: [] })}
            />{' '}
            rows
          </label>
          <label>
            <input
              type="radio"
              name="shape"
              checked={draft.shape === 'groups'}
              onChange={() =>
                set({
                  shape: 'groups',
                  order_by: [],
                  ...(draft.aggregate.length > 0 ? {} : { aggregate: [{ fn: 'count', column: '', as: '' }] }),
                })
              }
            />{' '}
            aggregates by group
          </label>
        </div>
        {draft.shape === 'rows' && <Columns draft={draft} schema={schema} set={set} />}
      </fieldset>
      {draft.shape === 'groups' && (
        <Groups
          draft={draft}
          columns={columns}
          time={time}
          change={set}
          faultAt={(part, index) => faultAt(part)(index)}
        />
      )}
      <Conditions
        draft={draft}
        columns={columns}
        time={time}
        change={(where) => set({ where })}
        faultAt={faultAt('where')}
      />
      <ListEditor
        title="Order by"
        one="order"
        items={draft.order_by}
        change={(order_by) => set({ order_by })}
        most={4}
        fresh={() => ({ column: answeredNames(draft, columns)[0] ?? '', direction: 'desc' })}
        faultAt={faultAt('order_by')}
      >
        {(order, setOrder, name) => (
          <>
            <LineSelect
              label={`Column of ${name}`}
              value={order.column}
              of={answeredNames(draft, columns)}
              choose={(column) => setOrder({ column })}
            />
            <LineSelect
              label={`Direction of ${name}`}
              value={order.direction}
              of={[
                ['desc', 'descending'],
                ['asc', 'ascending'],
              ]}
              choose={(direction) => setOrder({ direction })}
            />
          </>
        )}
      </ListEditor>
      <div className={css['filters']}>
        <Field
          label="Rows per page"
          hint="1 to 1,000. Default: 100."
          fault={fault?.violations.find(({ path }) => path === 'limit')?.message}
        >
          {(control) => (
            <input
              {...control}
              type="number"
              min={1}
              max={1000}
              placeholder="100"
              value={draft.limit}
              onChange={({ target }) => set({ limit: target.value })}
            />
          )}
        </Field>
      </div>
    </>
  );
}

function Columns(props: { draft: Draft; schema: Schema; set: (part: Partial<Draft>) => void }) {
  const { draft, schema, set } = props;
  const { select } = draft;
  return (
    <details open={select.length > 0}>
      <summary>
        {select.length === 0 ? 'All columns except long texts' : `${select.length} columns`}; choose columns
      </summary>
      <div className={css['choices']}>
        {schema.columns.map(({ name, description }) => (
          <label key={name} title={description}>
            <input
              type="checkbox"
              checked={select.includes(name)}
              onChange={({ target }) =>
                set({
                  select: target.checked ? [...select, name] : select.filter((one) => one !== name),
                })
              }
            />{' '}
            {name}
          </label>
        ))}
      </div>
    </details>
  );
}
