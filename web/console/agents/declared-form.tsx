import { useState } from 'react';
import { asFault } from '../api/fault.ts';
import { Button, FaultNote, Field, Row } from '../parts/index.tsx';
import css from './agents.module.css';
import { type Declared, textOf, typedOf } from './declared.ts';

/** Form for declared fields: a control by type for each one, with its validation message. */
export function DeclaredForm(props: {
  fields: readonly Declared[];
  /** Initial values by field name; they replace the defaults. */
  values?: Readonly<Record<string, unknown>>;
  action: string;
  busy: boolean;
  /** Error of the host; violations at `inputs.NAME` are shown at their fields. */
  error: unknown;
  send: (values: Record<string, unknown>) => void;
  disabled?: boolean;
}) {
  const { fields, values = {}, action, busy, error, send, disabled = false } = props;
  const [texts, setTexts] = useState<Readonly<Record<string, string>>>({});
  const [tried, setTried] = useState(false);
  const typed = fields.map((field) => {
    const { name } = field;
    const text = texts[name] ?? textOf(name in values ? values[name] : field.default, field);
    return { field, text, read: typedOf(field, text) };
  });
  const refused = (name: string) =>
    error
      ? asFault(error).violations.find(
          ({ path }) => path === `inputs.${name}` || path.startsWith(`inputs.${name}.`),
        )?.message
      : undefined;
  return (
    <form
      className={css['form']}
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        setTried(true);
        if (typed.some(({ read }) => 'fault' in read)) return;
        send(
          Object.fromEntries(
            typed.flatMap(({ field, read }) => ('value' in read ? [[field.name, read.value]] : [])),
          ),
        );
      }}
    >
      {typed.map(({ field, text, read }) => (
        <Field
          key={field.name}
          label={`${field.name}${field.required ? ' (required)' : ''}`}
          hint={hintOf(field)}
          fault={'fault' in read && (tried || text !== '') ? read.fault : refused(field.name)}
        >
          {(control) => (
            <Control
              control={control}
              field={field}
              text={text}
              write={(next) => setTexts((before) => ({ ...before, [field.name]: next }))}
            />
          )}
        </Field>
      ))}
      {error !== null && error !== undefined && <FaultNote error={error} />}
      <Row>
        <Button type="submit" kind="primary" busy={busy} disabled={disabled}>
          {action}
        </Button>
      </Row>
    </form>
  );
}

function hintOf({ type, description }: Declared): string | undefined {
  const form = {
    array: 'A JSON array.',
    object: 'A JSON object.',
    any: 'A JSON value; strings need quotes.',
  };
  const said = [description, type in form ? form[type as keyof typeof form] : undefined];
  return said.filter(Boolean).join(' ') || undefined;
}

function Control({
  control,
  field,
  text,
  write,
}: {
  control: Parameters<Parameters<typeof Field>[0]['children']>[0];
  field: Declared;
  text: string;
  write: (text: string) => void;
}) {
  const { type, enum: allowed = type === 'boolean' ? [true, false] : undefined } = field;
  if (allowed)
    return (
      <select {...control} value={text} onChange={({ target }) => write(target.value)}>
        {(field.default === undefined || text === '') && (
          <option value="">{field.required ? 'choose one' : 'not set'}</option>
        )}
        {allowed.map((one) => {
          const json = JSON.stringify(one);
          return (
            <option key={json} value={json}>
              {typeof one === 'string' ? one : json}
            </option>
          );
        })}
      </select>
    );
  if (type === 'number' || type === 'integer')
    return (
      <input
        {...control}
        inputMode={type === 'integer' ? 'numeric' : 'decimal'}
        value={text}
        onChange={({ target }) => write(target.value)}
      />
    );
  return (
    <textarea
      {...control}
      className={`${control.className} ${css['line']}`}
      rows={type === 'string' ? 1 : 3}
      spellCheck={type === 'string'}
      value={text}
      onChange={({ target }) => write(target.value)}
    />
  );
}
