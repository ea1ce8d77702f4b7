import type { ReactNode } from 'react';
import { Link, useLocation } from 'wouter';
import type { Fault } from '../../api/fault.ts';
import { CopyButton, inSentence } from '../../ui/copy.tsx';
import { formatRelativeTime, formatMs, formatTime } from '../../ui/format.ts';
import { Badge, useHostDown } from '../../ui/index.tsx';
import { StateBadge as SharedStateBadge } from '../../ui/state-badge.tsx';
import css from './agents.module.css';
import { useTimedText } from './clock.ts';
import type { Tool, WaitingOn } from './schemas.ts';

export { css as agentsCss };

/** `3 min ago`, with the exact time as the tooltip. */
export function RelativeTime({ time }: { time: string }) {
  const text = useTimedText((now) =>
    Math.abs(now - new Date(time).getTime()) < 1000 ? 'just now' : formatRelativeTime(time, now),
  );
  return (
    <time dateTime={time} title={formatTime(time)} className={css['whole']}>
      {text}
    </time>
  );
}

/** Duration from one time to another, or to now. */
export function Duration({ from, to }: { from: string; to: string | undefined }) {
  const text = useTimedText((now) => {
    const durationMs = (to === undefined ? now : new Date(to).getTime()) - new Date(from).getTime();
    if (to !== undefined) return formatMs(durationMs);
    return durationMs < 1000 ? 'less than 1 s' : formatMs(Math.floor(durationMs / 1000) * 1000);
  });
  return <span className={css['whole']}>{text}</span>;
}

/** What a run waits for, as shown in lists. */
export const waitingTexts: Readonly<Record<WaitingOn, string>> = {
  input: 'your input',
  time: 'a time',
  value: 'a condition',
  event: 'an event',
  approval: 'an approval',
  schedule: 'its schedule',
  armed: 'run-now (armed)',
};

/** The state of a task, run, step or pending change, and what it waits for. */
export const StateBadge = ({ state, waitingOn }: { state: string; waitingOn?: WaitingOn | undefined }) =>
  waitingOn === undefined ? (
    <SharedStateBadge state={state} />
  ) : (
    <span className={css['names']}>
      <SharedStateBadge state={state} /> for {waitingTexts[waitingOn]}
    </span>
  );

export const ToolBadge = ({ availability }: Pick<Tool, 'availability'>) => (
  <Badge tone={availability === 'available' ? 'good' : availability === 'gated' ? 'warn' : 'bad'}>
    {availability}
  </Badge>
);

/** Shows a string unchanged and any other value as JSON. */
export function ValueView({ value, label }: { value: unknown; label: string }) {
  const text = typeof value === 'string' ? value : JSON.stringify(value, null, 2);
  return (
    <div className={css['valueFrame']}>
      <div className={css['value']} role="region" aria-label={label} tabIndex={0}>
        {text || '(empty)'}
      </div>
      {text && (
        <span className={css['valueCopy']}>
          <CopyButton text={text} label={inSentence(label)} />
        </span>
      )}
    </div>
  );
}

/** Navigation between the pages of a view. */
export function SubNav({
  label,
  links,
}: {
  label: string;
  links: readonly { readonly href: string; readonly title: ReactNode }[];
}) {
  const [location] = useLocation();
  // The longest match wins: one path may lie below another.
  const current = links
    .filter(({ href }) => location === href || location.startsWith(`${href}/`))
    .toSorted((a, b) => b.href.length - a.href.length)[0];
  return (
    <nav className={css['nav']} aria-label={label}>
      {links.map(({ href, title }) => (
        <Link key={href} href={href} {...(current?.href === href ? { 'aria-current': 'page' as const } : {})}>
          {title}
        </Link>
      ))}
    </nav>
  );
}

/** Notice that an event stream reconnects. */
export const ReconnectNotice = ({ fault }: { fault: Fault | undefined }) => {
  // While the host is down, the banner says so.
  const isDown = useHostDown();
  return (
    <p role="status" className={`${css['quiet']} ${css['live']}`}>
      {fault && !isDown && `The connection was lost (${fault.message}). Reconnecting; no events are lost.`}
    </p>
  );
};

/** A labelled `select` for a filter. */
export function FilterSelect(props: {
  label: string;
  value: string;
  onChoose: (value: string) => void;
  options: readonly (readonly [value: string, title: string])[];
}) {
  const { label, value, onChoose, options } = props;
  return (
    <label className={css['choice']}>
      {label}
      <select className={css['select']} value={value} onChange={({ target }) => onChoose(target.value)}>
        {options.map(([name, title]) => (
          <option key={name} value={name}>
            {title}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Console paths of resources of the agent plane. */
export const consolePath = {
  task: (id: string) => `/console/tasks/${id}`,
  run: (id: string) => `/console/runs/${id}`,
  pending: (id: string) => `/console/pending/${id}`,
  session: (id: string) => `/console/sessions/${id}`,
  workflow: (name: string) => `/console/workflows/${name}`,
} as const;

/** An id, as a link when the resource has a view. */
export function IdLink({ id }: { id: string }) {
  const href = /^t\d+$/.test(id)
    ? consolePath.task(id)
    : /^r\d+$/.test(id)
      ? consolePath.run(id)
      : /^p\d+$/.test(id)
        ? consolePath.pending(id)
        : undefined;
  return href === undefined ? <>{id}</> : <Link href={href}>{id}</Link>;
}
