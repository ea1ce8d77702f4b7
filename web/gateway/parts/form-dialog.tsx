import { type ReactNode, useState } from 'react';
import { asFault, type Fault } from '../../api/fault.ts';
import { Button, Dialog, FaultNote, Field } from '../../ui/index.tsx';
import css from '../gateway.module.css';

export interface FormField<Name extends string> {
  readonly name: Name;
  readonly label: string;
  readonly hint?: ReactNode | ((value: string) => ReactNode);
  /** Default: text. */
  readonly kind?: 'text' | 'time' | 'select';
  /** Choices of a select, or suggestions of a text. */
  readonly options?: readonly { readonly value: string; readonly title?: string }[];
}

type Values<Name extends string> = Readonly<Record<Name, string>>;

/**
 * A dialog with a form. The gateway checks the values: each violation is shown at its field, and what belongs to no field
 * above them.
 * @param props.submit sends the values; rejects with a `Fault`
 */
export function FormDialog<Name extends string>(props: {
  title: string;
  action: string;
  fields: readonly FormField<Name>[];
  initial: Values<Name>;
  submit: (values: Values<Name>) => Promise<unknown>;
  onClose: () => void;
  children?: ReactNode;
}) {
  const { title, action, fields, initial, submit, onClose, children } = props;
  const [values, setValues] = useState(initial);
  const [fault, setFault] = useState<Fault>();
  const [isBusy, setBusy] = useState(false);
  const names: readonly string[] = fields.map(({ name }) => name);
  const faultOf = (name: string) =>
    fault?.violations
      .filter(({ path }) => fieldOf(path) === name)
      .map(({ message }) => message)
      .join('; ') || undefined;
  const isGeneral =
    fault !== undefined &&
    (fault.violations.length === 0 || fault.violations.some(({ path }) => !names.includes(fieldOf(path))));
  const send = async () => {
    setBusy(true);
    setFault(undefined);
    try {
      await submit(values);
      onClose();
    } catch (error) {
      setFault(asFault(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog title={title} isOpen onClose={onClose}>
      <form
        className={css['form']}
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          void send();
        }}
      >
        {children}
        {isGeneral && <FaultNote error={fault} />}
        {fields.map(({ name, label, hint, kind = 'text', options }) => {
          const value = values[name];
          const set = (next: string) => setValues({ ...values, [name]: next });
          const list = kind === 'text' && options ? `form-${name}-options` : undefined;
          return (
            <Field
              key={name}
              label={label}
              hint={typeof hint === 'function' ? hint(value) : hint}
              fault={faultOf(name)}
            >
              {(control) =>
                kind === 'select' ? (
                  <select {...control} value={value} onChange={({ target }) => set(target.value)}>
                    {options?.map((option) => (
                      <option key={option.value} value={option.value}>
                        {option.title ?? option.value}
                      </option>
                    ))}
                  </select>
                ) : (
                  <>
                    <input
                      {...control}
                      type={kind === 'time' ? 'datetime-local' : 'text'}
                      autoComplete="off"
                      spellCheck={false}
                      value={value}
                      list={list}
                      onChange={({ target }) => set(target.value)}
                    />
                    {list !== undefined && (
                      <datalist id={list}>
                        {options?.map((option) => (
                          <option key={option.value} value={option.value}>
                            {option.title}
                          </option>
                        ))}
                      </datalist>
                    )}
                  </>
                )
              }
            </Field>
          );
        })}
        <div className={css['actions']}>
          <Button type="submit" kind="primary" busy={isBusy}>
            {action}
          </Button>
          <Button onClick={onClose}>Cancel</Button>
        </div>
      </form>
    </Dialog>
  );
}

/** `models[0]` and `models.0` belong to the field `models`. */
const fieldOf = (path: string): string => path.split(/[.[]/, 1)[0] ?? '';

/** A whole number where the text is one; the gateway refuses another text at its field. */
export const toNumber = (text: string): number => {
  const value = text.trim();
  return (/^\d+$/.test(value) ? Number(value) : value) as number;
};

/** RFC 3339 of a `datetime-local` input; the empty text stays empty. */
export const toTime = (local: string): string =>
  local === '' || Number.isNaN(Date.parse(local)) ? local : new Date(local).toISOString();

/** The value of a `datetime-local` input. */
export function toLocalTime(time: string | null): string {
  if (time === null) return '';
  const date = new Date(time);
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
