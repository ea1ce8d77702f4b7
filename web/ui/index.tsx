/** Components shared by all views. */
import {
  type ComponentProps,
  createContext,
  type ReactNode,
  useContext,
  useEffect,
  useId,
  useRef,
  useSyncExternalStore,
} from 'react';
import { asFault } from '../api/fault.ts';
import { hostConnection } from '../api/host-connection.ts';
import { CopyButton } from './copy.tsx';
import { escapeInvisible } from './format.ts';
import css from './parts.module.css';

export { css as partsCss };
export { type Column, Table } from './table.tsx';
export { WindowedList } from './windowed-list.tsx';

const classNames = (...names: readonly (string | false | undefined)[]) => names.filter(Boolean).join(' ');

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
      className={classNames(css['panel'], className)}
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
      className={classNames(css['button'], kind && css[kind], rest.className)}
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
  const descriptionId = hint !== undefined || fault !== undefined ? `${id}-about` : undefined;
  const className = css['input'] ?? '';
  return (
    <div className={css['field']}>
      <label htmlFor={id}>{label}</label>
      {children({ id, className, 'aria-describedby': descriptionId, 'aria-invalid': fault !== undefined })}
      {descriptionId !== undefined && (
        <div id={descriptionId}>
          {fault !== undefined && <div className={css['wrong']}>{fault}</div>}
          {hint !== undefined && <div className={css['hint']}>{hint}</div>}
        </div>
      )}
    </div>
  );
}

/** Empty state: what would be listed here, and how to add it or what to do next. */
export const Empty = ({ title, children }: { title: string; children: ReactNode }) => (
  <div className={css['empty']}>
    <strong>{title}</strong>
    <div>{children}</div>
  </div>
);

export const Loading = ({ what }: { what: string }) => (
  <p className={css['loading']} role="status">
    Loading {what} ...
  </p>
);

/** An error with all its violations, code and request id, and a retry button. */
export function FaultNote({ error, retry }: { error: unknown; retry?: () => void }) {
  const isHostDown = useHostDown();
  const { message, code, violations, status, requestId } = asFault(error);
  // The banner says that the host does not answer, once for the page.
  if (isHostDown && status === 0) return null;
  // Planes also join the violations into the message; those are shown only once.
  const hasListedViolations =
    violations.length > 0 && violations.every(({ message: text }) => message.includes(text));
  return (
    <div className={css['fault']} role="alert">
      <strong>{hasListedViolations ? 'The request was refused:' : message}</strong>
      {violations.length > 0 && (
        <ul>
          {violations.map(({ path, message: text }) => (
            <li key={`${path} ${text}`}>
              {path !== '' && <code>{path}</code>} {text}
            </li>
          ))}
        </ul>
      )}
      <Row>
        {retry && <Button onClick={retry}>Try again</Button>}
        <span className={css['hint']}>
          {[status > 0 ? String(status) : undefined, code, requestId].filter(Boolean).join(' · ')}
        </span>
        {requestId !== undefined && <CopyButton text={requestId} label="the request's id" />}
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
}) => <span className={classNames(css['badge'], tone && css[tone])}>{children}</span>;

/** Whether the server of the page does not answer, where that is not the host: a page of the gateway provides it. */
export const ServerDownContext = createContext<boolean | undefined>(undefined);

/** Whether the host does not answer. */
export const useHostDown = (): boolean => {
  const isHostDown = useSyncExternalStore(hostConnection.subscribe, () => hostConnection.isDown);
  return useContext(ServerDownContext) ?? isHostDown;
};

/** A state that only the host knows: unknown while it does not answer. */
export const LiveBadge = (props: ComponentProps<typeof Badge>) =>
  useHostDown() ? <Badge>unknown</Badge> : <Badge {...props} />;

/** Tabs; the arrow keys move between them. */
export function Tabs<Name extends string>(props: {
  label: string;
  tabs: readonly { readonly name: Name; readonly title: ReactNode }[];
  selected: Name;
  onSelect: (name: Name) => void;
  children: ReactNode;
}) {
  const { label, tabs, selected, onSelect, children } = props;
  const id = useId();
  const step = (by: number) => {
    const at = tabs.findIndex(({ name }) => name === selected);
    const next = tabs[(at + by + tabs.length) % tabs.length];
    if (!next) return;
    onSelect(next.name);
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
            aria-selected={name === selected}
            aria-controls={`${id}-panel`}
            tabIndex={name === selected ? 0 : -1}
            className={css['tab']}
            onClick={() => onSelect(name)}
          >
            {title}
          </button>
        ))}
      </div>
      <div role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-${selected}`}>
        {children}
      </div>
    </div>
  );
}

/** A unified diff. Lines keep their + and - marks, so the meaning does not depend on color. */
export function DiffView({ diff, label }: { diff: string; label: string }) {
  const lineClass = (line: string): string | undefined => {
    if (line.startsWith('@@') || line.startsWith('---') || line.startsWith('+++')) return css['hunk'];
    if (line.startsWith('+')) return css['added'];
    return line.startsWith('-') ? css['removed'] : undefined;
  };
  return (
    <div className={css['diff']} role="region" aria-label={label} tabIndex={0}>
      <div>
        {diff.split('\n').map((line, index) => (
          // oxlint-disable-next-line react/no-array-index-key -- lines of a diff have no key other than their index
          <span key={index} className={classNames(css['diffLine'], lineClass(line))}>
            {line === '' ? ' ' : escapeInvisible(line)}
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
  isOpen: boolean;
  onClose: () => void;
  children: ReactNode;
  footer?: ReactNode;
}) {
  const { title, isOpen, onClose, children, footer } = props;
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = ref.current;
    if (isOpen && dialog && !dialog.open) dialog.showModal();
    if (!isOpen && dialog?.open) dialog.close();
  }, [isOpen]);
  return (
    <dialog ref={ref} className={css['dialog']} aria-labelledby={id} onClose={onClose}>
      {isOpen && (
        <div className={css['dialogBody']}>
          <h2 id={id}>{title}</h2>
          {children}
          {footer !== undefined && <div className={css['dialogFoot']}>{footer}</div>}
        </div>
      )}
    </dialog>
  );
}

/** Confirmation of an action that cannot be undone. */
export function Confirm(props: {
  title: string;
  isOpen: boolean;
  action: string;
  busy?: boolean;
  onConfirm: () => void;
  onClose: () => void;
  children: ReactNode;
}) {
  const { title, isOpen, action, busy, onConfirm, onClose, children } = props;
  return (
    <Dialog
      title={title}
      isOpen={isOpen}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="danger" busy={busy === true} onClick={onConfirm}>
            {action}
          </Button>
        </>
      }
    >
      {children}
    </Dialog>
  );
}
