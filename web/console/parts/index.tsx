/** Components shared by all views. */
import { type ComponentProps, type ReactNode, useEffect, useId, useRef } from 'react';
import { asFault } from '../api/fault.ts';
import { visible } from './format.ts';
import css from './parts.module.css';

export { css as partsCss };

const joined = (...names: readonly (string | false | undefined)[]) => names.filter(Boolean).join(' ');

/** A view with its title, a lead sentence and page-level actions. */
export function Page(props: { title: string; lead?: ReactNode; tools?: ReactNode; children: ReactNode }) {
  const { title, lead, tools, children } = props;
  useEffect(() => {
    document.title = `${title} - lathe`;
  }, [title]);
  return (
    <div className={css['page']}>
      <header className={css['pageHead']}>
        <div>
          <h1>{title}</h1>
          {lead !== undefined && <p className={css['lead']}>{lead}</p>}
        </div>
        {tools !== undefined && <div className={css['row']}>{tools}</div>}
      </header>
      {children}
    </div>
  );
}

export function Panel(props: {
  title?: ReactNode;
  tools?: ReactNode;
  children: ReactNode;
  className?: string | undefined;
}) {
  const { title, tools, children, className } = props;
  const id = useId();
  return (
    <section
      className={joined(css['panel'], className)}
      {...(title === undefined ? {} : { 'aria-labelledby': id })}
    >
      {(title !== undefined || tools !== undefined) && (
        <div className={css['panelHead']}>
          <h2 id={id}>{title}</h2>
          {tools !== undefined && <div className={css['row']}>{tools}</div>}
        </div>
      )}
      <div className={css['panelBody']}>{children}</div>
    </section>
  );
}

/** Lays out its children in a line that wraps. */
export const Row = ({ children }: { children: ReactNode }) => <div className={css['row']}>{children}</div>;

export function Button({
  kind,
  busy,
  ...rest
}: ComponentProps<'button'> & { kind?: 'primary' | 'danger'; busy?: boolean }) {
  return (
    <button
      type="button"
      {...rest}
      className={joined(css['button'], kind && css[kind], rest.className)}
      disabled={rest.disabled === true || busy === true}
      aria-busy={busy === true}
    />
  );
}

/** A form control with label, hint and validation message. */
export function Field(props: {
  label: string;
  hint?: ReactNode;
  fault?: string | undefined;
  children: (control: {
    id: string;
    className: string;
    'aria-describedby': string | undefined;
    'aria-invalid': boolean;
  }) => ReactNode;
}) {
  const { label, hint, fault, children } = props;
  const id = useId();
  const about = hint !== undefined || fault !== undefined ? `${id}-about` : undefined;
  const className = css['input'] ?? '';
  return (
    <div className={css['field']}>
      <label htmlFor={id}>{label}</label>
      {children({ id, className, 'aria-describedby': about, 'aria-invalid': fault !== undefined })}
      {about !== undefined && (
        <div id={about}>
          {fault !== undefined && <div className={css['wrong']}>{fault}</div>}
          {hint !== undefined && <div className={css['hint']}>{hint}</div>}
        </div>
      )}
    </div>
  );
}

export interface Column<Item> {
  readonly key: string;
  readonly head: ReactNode;
  readonly cell: (item: Item) => ReactNode;
  readonly number?: boolean;
}

/** A table that scrolls horizontally when the page is too narrow. */
export function Table<Item>(props: {
  caption: string;
  columns: readonly Column<Item>[];
  rows: readonly Item[];
  keyOf: (item: Item, index: number) => string;
  isSelected?: (item: Item) => boolean;
}) {
  const { caption, columns, rows, keyOf, isSelected } = props;
  const classOf = ({ number }: Column<Item>) => (number ? css['number'] : undefined);
  return (
    // A scrollable region must be focusable by keyboard.
    <div className={css['tableBox']} role="region" aria-label={caption} tabIndex={0}>
      <table className={css['table']}>
        <caption className={css['visuallyHidden']}>{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.key} scope="col" className={classOf(column)}>
                {column.head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            <tr key={keyOf(row, index)} {...(isSelected?.(row) ? { 'aria-selected': true } : {})}>
              {columns.map((column) => (
                <td key={column.key} className={classOf(column)}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Empty state: what would be listed here, and how to add it. */
export const Empty = ({ title, children }: { title: string; children?: ReactNode }) => (
  <div className={css['empty']}>
    <strong>{title}</strong>
    {children !== undefined && <div>{children}</div>}
  </div>
);

export const Loading = ({ what }: { what: string }) => (
  <p className={css['loading']} role="status">
    Loading {what} ...
  </p>
);

/** An error with all its violations, code and request id, and a retry button. */
export function FaultNote({ error, retry }: { error: unknown; retry?: () => void }) {
  const { message, code, violations, status, requestId } = asFault(error);
  // Planes also join the violations into the message; those are shown only once.
  const isListed = violations.length > 0 && violations.every(({ message: said }) => message.includes(said));
  return (
    <div className={css['fault']} role="alert">
      <strong>{isListed ? 'The host refused this:' : message}</strong>
      {violations.length > 0 && (
        <ul>
          {violations.map(({ path, message: said }) => (
            <li key={`${path} ${said}`}>
              {path !== '' && <code>{path}</code>} {said}
            </li>
          ))}
        </ul>
      )}
      <Row>
        {retry && <Button onClick={retry}>Try again</Button>}
        <span className={css['hint']}>
          {[status > 0 ? String(status) : undefined, code, requestId].filter(Boolean).join(' · ')}
        </span>
      </Row>
    </div>
  );
}

export const Badge = ({
  tone,
  children,
}: {
  tone?: 'good' | 'warn' | 'bad' | undefined;
  children: ReactNode;
}) => <span className={joined(css['badge'], tone && css[tone])}>{children}</span>;

/** Tabs; the arrow keys move between them. */
export function Tabs<Name extends string>(props: {
  label: string;
  tabs: readonly { readonly name: Name; readonly title: ReactNode }[];
  chosen: Name;
  choose: (name: Name) => void;
  children: ReactNode;
}) {
  const { label, tabs, chosen, choose, children } = props;
  const id = useId();
  const step = (by: number) => {
    const at = tabs.findIndex(({ name }) => name === chosen);
    const next = tabs[(at + by + tabs.length) % tabs.length];
    if (!next) return;
    choose(next.name);
    document.getElementById(`${id}-${next.name}`)?.focus();
  };
  return (
    <div>
      <div
        role="tablist"
        aria-label={label}
        className={css['tabs']}
        onKeyDown={({ key }) => {
          if (key === 'ArrowRight') step(1);
          if (key === 'ArrowLeft') step(-1);
        }}
      >
        {tabs.map(({ name, title }) => (
          <button
            key={name}
            type="button"
            role="tab"
            id={`${id}-${name}`}
            aria-selected={name === chosen}
            aria-controls={`${id}-panel`}
            tabIndex={name === chosen ? 0 : -1}
            className={css['tab']}
            onClick={() => choose(name)}
          >
            {title}
          </button>
        ))}
      </div>
      <div role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-${chosen}`}>
        {children}
      </div>
    </div>
  );
}

/** A unified diff. Lines keep their + and - marks, so the meaning does not depend on color. */
export function DiffView({ diff, label }: { diff: string; label: string }) {
  const kindOf = (line: string): string | undefined => {
    if (line.startsWith('@@') || line.startsWith('---') || line.startsWith('+++')) return css['hunk'];
    if (line.startsWith('+')) return css['added'];
    return line.startsWith('-') ? css['removed'] : undefined;
  };
  return (
    <div className={css['diff']} role="region" aria-label={label} tabIndex={0}>
      <div>
        {diff.split('\n').map((line, index) => (
          // oxlint-disable-next-line react/no-array-index-key -- lines of a diff have no key other than their index
          <span key={index} className={joined(css['diffLine'], kindOf(line))}>
            {line === '' ? ' ' : visible(line)}
          </span>
        ))}
      </div>
    </div>
  );
}

export const Facts = ({ facts }: { facts: readonly (readonly [name: string, value: ReactNode])[] }) => (
  <dl className={css['facts']}>
    {facts.map(([name, value]) => [<dt key={`${name} t`}>{name}</dt>, <dd key={`${name} d`}>{value}</dd>])}
  </dl>
);

/** A modal dialog; Escape closes it. */
export function Dialog(props: {
  title: string;
  open: boolean;
  close: () => void;
  children: ReactNode;
  foot?: ReactNode;
}) {
  const { title, open, close, children, foot } = props;
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = ref.current;
    if (open && dialog && !dialog.open) dialog.showModal();
    if (!open && dialog?.open) dialog.close();
  }, [open]);
  return (
    <dialog ref={ref} className={css['dialog']} aria-labelledby={id} onClose={close}>
      {open && (
        <div className={css['dialogBody']}>
          <h2 id={id}>{title}</h2>
          {children}
          {foot !== undefined && <div className={css['dialogFoot']}>{foot}</div>}
        </div>
      )}
    </dialog>
  );
}

/** Confirmation of an action that cannot be undone. */
export function Confirm(props: {
  title: string;
  open: boolean;
  action: string;
  busy?: boolean;
  confirm: () => void;
  close: () => void;
  children: ReactNode;
}) {
  const { title, open, action, busy, confirm, close, children } = props;
  return (
    <Dialog
      title={title}
      open={open}
      close={close}
      foot={
        <>
          <Button onClick={close}>Cancel</Button>
          <Button kind="danger" busy={busy === true} onClick={confirm}>
            {action}
          </Button>
        </>
      }
    >
      {children}
    </Dialog>
  );
}
