import { Field, Table } from '../../../../ui/index.tsx';
import css from './kernels.module.css';
import { directives, overridesOf, withDirectives, withOverride } from './manifest.ts';
import type { Op } from './queries.ts';

/** Form for the `//!` manifest lines of the source. */
export function ManifestFields(props: { op: Op; source: string; change: (source: string) => void }) {
  const { op, source, change } = props;
  const set = (key: Parameters<typeof withDirectives>[1], value: string) =>
    change(withDirectives(source, key, value === '' ? [] : [value]));
  const text = (key: Parameters<typeof directives>[1]) => directives(source, key)[0] ?? '';
  const { x, y, z } = op.dispatch;
  const defaultDispatch = [x, y, z].filter((part) => part !== undefined).join(', ');
  const overrides = overridesOf(source);
  return (
    <div className={css['fields']}>
      <Field
        label="Name"
        hint="Lowercase letters, digits, _ . and -. A new kernel replaces an earlier one with the same name."
      >
        {(control) => (
          <input
            {...control}
            value={text('name')}
            onChange={({ target }) => set('name', target.value)}
            spellCheck={false}
          />
        )}
      </Field>
      <Field
        label="Dispatch"
        hint={
          <>
            Workgroup counts x, y, z, computed from {op.dims.map(({ name }) => name).join(', ')} and the
            overrides. Default: <code>{defaultDispatch}</code>
          </>
        }
      >
        {(control) => (
          <input
            {...control}
            value={text('dispatch')}
            placeholder={defaultDispatch}
            onChange={({ target }) => set('dispatch', target.value)}
            spellCheck={false}
          />
        )}
      </Field>
      <Field label="Entry point">
        {(control) => (
          <input
            {...control}
            value={text('entry')}
            placeholder="main"
            onChange={({ target }) => set('entry', target.value)}
            spellCheck={false}
          />
        )}
      </Field>
      <CheckboxGroup
        legend="Required adapter features"
        all={op.features}
        chosen={splitList(text('requires'))}
        choose={(chosen) => set('requires', chosen.join(', '))}
      />
      {op.dtypes.length > 0 && (
        <details className={css['formats']}>
          <summary>Weight formats: {text('dtypes') === '' ? "the model's" : text('dtypes')}</summary>
          <CheckboxGroup
            legend="Supported weight formats"
            all={op.dtypes}
            chosen={splitList(text('dtypes'))}
            choose={(chosen) => set('dtypes', chosen.join(', '))}
          />
        </details>
      )}
      {overrides.length > 0 && (
        <Table
          caption="Overrides of the module"
          rows={overrides}
          keyOf={({ name }) => name}
          columns={[
            { key: 'name', head: 'Override', cell: ({ name }) => <code>{name}</code> },
            {
              key: 'value',
              head: 'Value',
              cell: ({ name, value, defaultValue }) => (
                <input
                  className={css['small']}
                  aria-label={`Value of ${name}`}
                  value={value}
                  placeholder={defaultValue ?? 'required'}
                  inputMode="decimal"
                  onChange={({ target }) => change(withOverride(source, 'override', name, target.value))}
                />
              ),
            },
            {
              key: 'tried',
              head: 'Values to try',
              cell: ({ name, candidates }) => (
                <input
                  className={css['small']}
                  aria-label={`Values of ${name} to try`}
                  value={candidates}
                  placeholder="32, 64, 128"
                  onChange={({ target }) => change(withOverride(source, 'tune', name, target.value))}
                />
              ),
            },
          ]}
        />
      )}
    </div>
  );
}

function CheckboxGroup(props: {
  legend: string;
  all: readonly string[];
  chosen: readonly string[];
  choose: (chosen: readonly string[]) => void;
}) {
  const { legend, all, chosen, choose } = props;
  return (
    <fieldset className={css['choices']}>
      <legend>{legend}</legend>
      {all.map((name) => (
        <label key={name}>
          <input
            type="checkbox"
            checked={chosen.includes(name)}
            onChange={({ target }) =>
              choose(target.checked ? [...chosen, name] : chosen.filter((each) => each !== name))
            }
          />
          {name}
        </label>
      ))}
    </fieldset>
  );
}

const splitList = (text: string): string[] =>
  text
    .split(',')
    .map((word) => word.trim())
    .filter((word) => word !== '');
