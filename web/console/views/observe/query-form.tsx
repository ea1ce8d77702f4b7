import type { Fault } from '../../../api/fault.ts';
import { Field } from '../../../ui/index.tsx';
import { Conditions } from './conditions.tsx';
import { resultColumnNames, type Draft } from './query-draft.ts';
import { GroupsEditor } from './groups.tsx';
import { LineSelect, ListEditor } from './list-editor.tsx';
import css from './observe.module.css';
import type { Schema } from './types.ts';

/** Form for a query, by the schema of its surface. */
export function QueryForm(props: {
  draft: Draft;
  schema: Schema;
  onChange: (draft: Draft) => void;
  /** Error of the last query. */
  fault: Fault | undefined;
}) {
  const { draft, schema, onChange, fault } = props;
  const { columns, time } = schema;
  const update = (part: Partial<Draft>) => onChange({ ...draft, ...part });
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
              onChange={() => update({ shape: 'rows', order_by: [] })}
            />{' '}
            rows
          </label>
          <label>
            <input
              type="radio"
              name="shape"
              checked={draft.shape === 'groups'}
              onChange={() =>
                update({
                  shape: 'groups',
                  order_by: [],
                  ...(draft.aggregate.length > 0 ? {} : { aggregate: [{ fn: 'count', column: '', as: '' }] }),
                })
              }
            />{' '}
            aggregates by group
          </label>
        </div>
        {draft.shape === 'rows' && <ColumnChoice draft={draft} schema={schema} update={update} />}
      </fieldset>
      {draft.shape === 'groups' && (
        <GroupsEditor
          draft={draft}
          columns={columns}
          time={time}
          change={update}
          faultAt={(part, index) => faultAt(part)(index)}
        />
      )}
      <Conditions
        draft={draft}
        columns={columns}
        time={time}
        onChange={(where) => update({ where })}
        faultAt={faultAt('where')}
      />
      <ListEditor
        title="Order by"
        itemName="order"
        items={draft.order_by}
        onChange={(order_by) => update({ order_by })}
        maxItems={4}
        createItem={() => ({ column: resultColumnNames(draft, columns)[0] ?? '', direction: 'desc' })}
        faultAt={faultAt('order_by')}
      >
        {(order, setOrder, name) => (
          <>
            <LineSelect
              label={`Column of ${name}`}
              value={order.column}
              of={resultColumnNames(draft, columns)}
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
              onChange={({ target }) => update({ limit: target.value })}
            />
          )}
        </Field>
      </div>
    </>
  );
}

function ColumnChoice(props: { draft: Draft; schema: Schema; update: (part: Partial<Draft>) => void }) {
  const { draft, schema, update } = props;
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
                update({
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
