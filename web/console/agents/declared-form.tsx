import { useState } from 'react';
import { asFault } from '../../api/fault.ts';
import { Button, FaultNote, Field, Row } from '../../ui/index.tsx';
import css from './agents.module.css';
import { type DeclaredField, initialText, parseField } from './declared-fields.ts';

/** Form for declared fields: a control by type for each one, with its validation message. */
export function DeclaredForm(props: {
  fields: readonly DeclaredField[];
  /** Initial values by field name; they replace the defaults. */
  values?: Readonly<Record<string, unknown>>;
  action: string;
  busy: boolean;
  /** Error of the host; violations at `inputs.NAME` are shown at their fields. */
  error: unknown;
  onSubmit: (values: Record<string, unknown>) => void;
  disabled?: boolean;
}) {
  const { fields, values = {}, action, busy, error, onSubmit, disabled = false } = props;
  const [texts, setTexts] = useState<Readonly<Record<string, string>>>({});
  const [wasSubmitted, setTried] = useState(false);
  const parsedFields = fields.map((field) => {
    const { name } = field;
    const text = texts[name] ?? initialText(name in values ? values[name] : field.default, field);
    return { field, text, parsed: parseField(field, text) };
  });
  const hostFault = (name: string) =>
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
        if (parsedFields.some(({ parsed }) => 'fault' in parsed)) return;
        onSubmit(
          Object.fromEntries(
            parsedFields.flatMap(({ field, parsed }) =>
              'value' in parsed ? [[field.name, parsed.value]] : [],
            ),
          ),
        );
      }}
    >
      {parsedFields.map(({ field, text, parsed }) => (
        <Field
          key={field.name}
          label={`${field.name}${field.required ? ' (required)' : ''}`}
          hint={fieldHint(field)}
          fault={'fault' in parsed && (wasSubmitted || text !== '') ? parsed.fault : hostFault(field.name)}
        >
          {(control) => (
            <Control
              control={control}
              field={field}
              text={text}
              onText={(next) => setTexts((before) => ({ ...before, [field.name]: next }))}
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

function fieldHint({ type, description }: DeclaredField): string | undefined {
  const typeHints = {
    array: 'A JSON array.',
    object: 'A JSON object.',
    any: 'A JSON value; strings need quotes.',
  };
  const texts = [description, type in typeHints ? typeHints[type as keyof typeof typeHints] : undefined];
  return texts.filter(Boolean).join(' ') || undefined;
}

function Control({
  control,
  field,
  text,
  onText,
}: {
  control: Parameters<Parameters<typeof Field>[0]['children']>[0];
  field: DeclaredField;
  text: string;
  onText: (text: string) => void;
}) {
  const { type, enum: allowed = type === 'boolean' ? [true, false] : undefined } = field;
  if (allowed)
    return (
      <select {...control} value={text} onChange={({ target }) => onText(target.value)}>
        {(field.default === undefined || text === '') && (
          <option value="">{field.required ? 'choose one' : 'not set'}</option>
        )}
        {allowed.map((choice) => {
          const json = JSON.stringify(choice);
          return (
            <option key={json} value={json}>
              {typeof choice === 'string' ? choice : json}
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
        onChange={({ target }) => onText(target.value)}
      />
    );
  return (
    <textarea
      {...control}
      className={`${control.className} ${css['line']}`}
      rows={type === 'string' ? 1 : 3}
      spellCheck={type === 'string'}
      value={text}
      onChange={({ target }) => onText(target.value)}
    />
  );
}
